from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from group_coordinator.jobs.stopping import stop_after_batch
from tests.depth import cases
from tests.patience import PATIENCE_S, wait_for
from tests.repeating import repeating

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.streaming.harness import Harness

pytestmark = pytest.mark.spark

STOPS = cases(6, deep=15)


@contextmanager
def load(harness: Harness, per_second: int) -> Iterator[list[str]]:
    """Heartbeats of nobody, from another thread; yields the request ids."""
    sent: list[str] = []

    def send() -> None:
        number = len(sent)
        request = {
            "api": "heartbeat",
            "request_id": f"load-{number}",
            "client_id": "load",
            "group_id": f"g{number % 5}",
            "generation_id": 1,
            "member_id": "nobody",
        }
        harness.producer.send(
            harness.settings.topics_requests,
            key=request["group_id"].encode(),  # type: ignore[attr-defined]
            value=json.dumps(request).encode(),
        )
        sent.append(f"load-{number}")

    with repeating(send, 1 / per_second):
        yield sent


def _more_than(number: int, answers: list[object]) -> bool:
    return len(answers) > number


def batches(checkpoint: Path, log: str) -> list[int]:
    return sorted(int(file.name) for file in (checkpoint / log).iterdir() if file.name.isdigit())


@pytest.mark.drawn
def test_every_planned_batch_is_committed_and_no_answer_repeated(harness: Harness) -> None:
    moments = random.Random(4)
    checkpoint = Path(harness.settings.checkpoint)
    uncommitted: dict[int, set[int]] = {}
    in_time = []
    with load(harness, per_second=200) as sent:
        for number in range(STOPS):
            harness.start(clock=number == 0)
            if number % 3:
                # Most stops while it is busy, some while it is still starting.
                answered = len(harness.responses.records)
                harness.responses.until(partial(_more_than, answered))
                threading.Event().wait(moments.uniform(0, 0.6))
            in_time.append(harness.stop())
            left = set(batches(checkpoint, "offsets")) - set(batches(checkpoint, "commits"))
            if left:
                uncommitted[number] = left
    harness.start(clock=False)
    harness.responses.until(lambda answers: len(answers) >= len(sent))
    harness.stop()
    harness.responses.poll()

    assert uncommitted == {}
    assert in_time == [True] * STOPS
    assert Counter(answer["request_id"] for answer in harness.responses.values()) == Counter(sent)


def test_a_query_that_gets_nothing_but_ticks_is_stopped_too(harness: Harness) -> None:
    harness.start()
    harness.call("heartbeat", "g", generation_id=1, member_id="nobody")

    assert harness.stop() is True
    assert harness.query is not None
    assert harness.query.isActive is False


def test_a_batch_that_never_ends_is_interrupted(spark: SparkSession, tmp_path: Path) -> None:
    query = start(spark, tmp_path, lambda: threading.Event().wait(300))

    begun = time.monotonic()
    stopped = stop_after_batch(spark, query, 1)

    assert (stopped, query.isActive, query.exception()) == (False, False, None)
    assert time.monotonic() - begun < 20


@pytest.mark.verify
def test_a_batch_that_fails_meanwhile_is_not_committed(spark: SparkSession, tmp_path: Path) -> None:
    query = start(spark, tmp_path, lambda: 1 / 0)

    assert stop_after_batch(spark, query, PATIENCE_S) is False
    assert batches(tmp_path / "checkpoint", "commits") == []
    assert "ZeroDivisionError" in str(query.exception())


def start(spark: SparkSession, directory: Path, work: Callable[[], object]) -> StreamingQuery:
    """Start a query that does `work` in its first batch; return once it has begun to."""
    begun = directory / "begun"

    def run(frames: Iterator[Any]) -> Iterator[Any]:
        begun.touch()
        work()
        yield from frames

    query = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .load()
        .mapInPandas(run, "timestamp TIMESTAMP, value LONG")
        .writeStream.format("noop")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )
    wait_for(begun.exists, said=query.exception)
    return query


def test_a_query_that_has_ended_stays_ended(harness: Harness) -> None:
    harness.start()
    assert harness.query is not None
    harness.query.stop()

    assert harness.stop() is True
