"""What ticks do to time, and the query's plan: where there is one state partition, nothing is shuffled."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from group_coordinator.checkpoints.ledger import Begun
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.streaming.query import tick_time
from group_coordinator.streaming.ticks import Tick
from tests.patience import PATIENCE_S
from tests.topics import Reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.streaming.harness import Harness

pytestmark = pytest.mark.spark

_SHUFFLE = "Exchange hashpartitioning"


def plan_of_last_batch(harness: Harness, capsys: pytest.CaptureFixture[str]) -> str:
    assert harness.query is not None
    capsys.readouterr()
    harness.query.explain()
    text = capsys.readouterr().out
    assert "FlatMapGroupsInPandasWithState" in text
    return text


@pytest.mark.parametrize("harness", [{"state_partitions": 2}], indirect=True)
def test_several_state_partitions_need_a_shuffle(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.start_and_warm_up()

    assert _SHUFFLE in plan_of_last_batch(harness, capsys)


@pytest.mark.parametrize("harness", [{"state_partitions": 1}], indirect=True)
def test_one_state_partition_needs_none(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    """And the one task reads all partitions of the topic."""
    harness.start_and_warm_up()

    found = {harness.call("find_coordinator", f"group-{number}")["partition"] for number in range(8)}
    assert {0, 1} == found
    assert _SHUFFLE not in plan_of_last_batch(harness, capsys)


@pytest.mark.parametrize("harness", [{"state_partitions": 1}], indirect=True)
def test_groups_that_were_shuffled_to_the_one_partition_are_found(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkpoint of before there was a plan without a shuffle."""
    with monkeypatch.context() as patch:
        patch.setattr("pyspark.sql.DataFrame.coalesce", lambda log, _: log)
        harness.start_and_warm_up()
    joined = harness.answer(harness.join("orders", "c1", group_instance_id="i1"))
    assert harness.stop()

    harness.start()

    again = harness.answer(harness.join("orders", "c1", group_instance_id="i1"))
    assert joined["generation_id"] + 1 == again["generation_id"]


def test_a_deadline_fires_as_soon_as_the_watermark_has_come_to_it(harness: Harness) -> None:
    """As `step` has it, so that a replay of the log finds no decision that the query has not made yet."""
    harness.start(clock=False)
    harness.answer(harness.join("orders", group_instance_id="i1", session_timeout_ms=10_000))
    settings = harness.settings
    with Reader({"bootstrap_servers": settings.bootstrap_servers}, settings.topics_requests) as requests:
        (join,) = requests.read_to_end()
    at_ms = join.timestamp + 10_000 + settings.clock_slack_ms

    tick = {"tick": 2, "time_ms": at_ms}
    assert harness.query is not None
    # The next batch has the watermark that the first tick has moved.
    for _ in range(2):
        harness.producer.send(settings.topics_clock, json.dumps(tick).encode()).get(PATIENCE_S)
        harness.query.processAllAvailable()

    progress = harness.query.lastProgress
    assert progress is not None
    assert progress["eventTime"]["watermark"] == log_time(join.timestamp + 10_000)
    harness.events.read_to_end()
    assert "session_expired" in [event.get("reason") for event in harness.events.values()]


def test_a_task_knows_of_which_batch_it_is_and_when_that_was_planned(harness: Harness) -> None:
    """Log time is an hour behind for the first batch, so its requests seem to come from the future."""
    made = harness.join("first", group_instance_id="i1")
    harness.start(begun=[Begun(0, -3_600_000, LATEST_MS), Begun(1, 0, LATEST_MS)])
    harness.answer(made)
    harness.answer(harness.join("second", group_instance_id="i1"))
    harness.events.read_to_end()
    (corrected,) = [it for it in harness.events.values() if it["event"] == "clock_corrected"]
    assert corrected["group_id"] == "first"
    # The first batch of a session takes its time.
    assert -3_600_000 <= corrected["shift_ms"] < -3_600_000 + PATIENCE_S * 1_000


def log_time(at_ms: int) -> str:
    """As Spark's progress has it."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"


def test_time_comes_as_far_as_ticks_let_it(spark: SparkSession) -> None:
    now_ms = 1_800_000_000_000
    times = {
        Tick(tick=2, coordinator="me", time_ms=now_ms, leeway_ms=9): now_ms,
        Tick(tick=1, coordinator="me"): 0,
        b'{"tick":2,"at_ms":5000}': 0,
        # Anybody's must not end the query.
        b"no tick": 0,
        b"\xff": 0,
        b'{"tick":2,"time_ms":null}': 0,
        b'{"tick":2,"time_ms":"soon"}': 0,
        b'{"tick":2,"time_ms":5.4}': 5,
        b'{"tick":2,"time_ms":-5}': -5,
        b'{"tick":2,"time_ms":999999999999999}': 999_999_999_999_999,
        b'{"tick":2,"time_ms":1000000000000000}': 0,
        b'{"tick":2,"time_ms":-9223372036854775808}': 0,
        b'{"tick":2,"time_ms":1e300}': 0,
        b'{"tick":2,"time_ms":' + b"9" * 5_000 + b"}": 0,
        b'{"tick":2,"time_ms":' + b"[" * 100_000: 0,
        b'{"more":' + b"[" * 100_000 + b"]" * 100_000 + b',"time_ms":5}': 0,
        b'{"time_ms":"\xff"}': 0,
        b'{"coordinator":"\xff","time_ms":5}': 5,
        None: 0,
    }
    values = [msgspec.json.encode(tick) if isinstance(tick, Tick) else tick for tick in times]
    rows = spark.createDataFrame([(value,) for value in values], "value BINARY")
    found = rows.select(F.unix_millis(tick_time())).collect()
    assert dict(zip(times, (row[0] for row in found), strict=True)) == times
