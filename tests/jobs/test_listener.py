"""What the jobs hear of their query, beside what pyspark's own listener makes of the same batches."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener

from group_coordinator.jobs.listener import QueryListener, _OneCall
from tests.patience import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

NAME = "listened-to"
OF_THE_WHOLE = ("id", "runId", "name", "timestamp", "batchId", "batchDuration", "durationMs", "eventTime")
# Without the rates, which Spark rounds.
OF_A_SOURCE = ("description", "startOffset", "endOffset", "latestOffset", "numInputRows", "metrics")
OF_AN_OPERATOR = (
    "operatorName",
    "numRowsTotal",
    "numRowsUpdated",
    "numRowsRemoved",
    "allUpdatesTimeMs",
    "allRemovalsTimeMs",
    "commitTimeMs",
    "memoryUsedBytes",
    "numRowsDroppedByWatermark",
    "numShufflePartitions",
    "numStateStoreInstances",
    "customMetrics",
)


class Ours(QueryListener):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self.heard: list[str] = []
        self.batches: list[StreamingQueryProgress] = []

    def started(self) -> None:
        self.heard.append("started")

    def batch_ended(self, progress: StreamingQueryProgress) -> None:
        self.batches.append(progress)

    def idled(self, timestamp: str) -> None:
        self.heard.append(f"idle since {timestamp[:2]}")

    def terminated(self) -> None:
        self.heard.append("terminated")


class Pysparks(StreamingQueryListener):
    """Notes what pyspark's own is told of the query with the name."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.batches: list[StreamingQueryProgress] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        if event.progress.name == self.name:
            self.batches.append(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...


def figures(progress: StreamingQueryProgress) -> list[Any]:
    """All figures of a batch, without how pyspark writes what is null."""
    found = [getattr(progress, name) for name in OF_THE_WHOLE]
    for source in progress.sources:
        found += [getattr(source, name) for name in OF_A_SOURCE]
    for operator in progress.stateOperators:
        found += [getattr(operator, name) for name in OF_AN_OPERATOR]
    return [_plain(each) for each in found]


def _plain(figure: Any) -> Any:
    if isinstance(figure, str) and figure.startswith("{"):
        return json.loads(figure)
    return None if figure in ("None", "null") else figure


@pytest.mark.spark
def test_it_hears_what_pysparks_own_does(spark: SparkSession, tmp_path: Path) -> None:
    inbox, ours, pysparks = tmp_path / "inbox", Ours(), Pysparks(NAME)
    inbox.mkdir()

    def put(number: int) -> None:
        part = tmp_path / f"{number}"
        part.write_text(f"{number}\n")
        part.rename(inbox / f"{number}")

    put(0)
    spark.streams.addListener(ours)
    spark.streams.addListener(pysparks)
    numbers = spark.readStream.text(str(inbox)).dropDuplicates(["value"])
    query, other = (
        numbers.writeStream.queryName(name)
        .format("noop")
        .option("checkpointLocation", str(tmp_path / name))
        .start()
        for name in (NAME, "another")
    )
    try:
        for number in range(1, 4):
            wait_for(lambda count=number: len(pysparks.batches) == count == len(ours.batches))
            put(number)
        wait_for(lambda: len(pysparks.batches) == 4 == len(ours.batches))
        query.stop()
        wait_for(lambda: ours.heard[-1] == "terminated")
    finally:
        query.stop()
        other.stop()
        spark.streams.removeListener(ours)
        spark.streams.removeListener(pysparks)

    assert [figures(each) for each in pysparks.batches] == [figures(each) for each in ours.batches]
    assert [each.numInputRows for each in ours.batches] == [1] * 4
    assert ours.batches[-1].stateOperators[0].numRowsTotal == 4
    assert set(ours.heard) <= {"started", "idle since 20", "terminated"}
    assert (ours.heard[0], ours.heard.count("terminated")) == ("started", 1)


def test_it_is_one_call() -> None:
    """Each call into the JVM takes its time; pyspark's own makes one for each figure."""
    source = {
        "description": "a topic",
        "startOffset": None,
        "endOffset": {"t": {"0": 7}},
        "latestOffset": None,
        "numInputRows": 3,
        "processedRowsPerSecond": 2.0,
    }
    progress = {
        "id": str(uuid4()),
        "runId": str(uuid4()),
        "name": None,
        "timestamp": "2026-11-22T04:00:00.000Z",
        "batchId": 1,
        "batchDuration": 5,
        "stateOperators": [],
        "sources": [source],
        "sink": {"description": "Kafka", "numOutputRows": -1},
    }
    of_java = SimpleNamespace(progress=lambda: SimpleNamespace(json=lambda: json.dumps(progress)))
    listener = Pysparks(None)
    _OneCall(listener).onQueryProgress(of_java)

    (told,) = listener.batches
    (source_told,) = told.sources
    assert (source_told.startOffset, source_told.endOffset) == ("null", '{"t": {"0": 7}}')
    assert math.isnan(source_told.inputRowsPerSecond)
    assert source_told.processedRowsPerSecond == 2
