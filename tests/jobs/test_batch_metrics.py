"""What Spark says of batches, as metrics."""

from __future__ import annotations

import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

from group_coordinator.jobs.batch_metrics import BatchMetrics
from tests.patience import PATIENCE_S, wait_for
from tests.streaming.registry import samples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent

NAME = "the-query-under-test"


def test_before_the_first_batch() -> None:
    registry = CollectorRegistry()
    BatchMetrics(registry, NAME)
    found = samples(registry)

    assert found["group_coordinator_query_up",] == 0
    assert found["group_coordinator_batch_duration_seconds_count",] == 0
    assert math.isnan(found["group_coordinator_watermark_age_seconds",])


def test_a_query_without_state_has_no_metrics_of_it() -> None:
    registry = CollectorRegistry()
    BatchMetrics(registry, NAME, is_stateful=False)

    assert {family.name for family in registry.collect()} == {
        "group_coordinator_query_up",
        "group_coordinator_batch_duration_seconds",
        "group_coordinator_batch_phase_seconds",
        "group_coordinator_input_rows",
    }


# As Spark 4.2 tells it, of the first batch after a restart; without what is not looked at.
PROGRESS: dict[str, Any] = {
    "id": str(uuid4()),
    "runId": str(uuid4()),
    "name": NAME,
    "timestamp": "2026-11-21T20:57:00.674Z",
    "batchId": 46,
    "batchDuration": 4888,
    "numInputRows": 6,
    "inputRowsPerSecond": 0.0,
    "processedRowsPerSecond": 1.0,
    "durationMs": {
        "addBatch": 3818,
        "commitOffsets": 4,
        "getBatch": 2,
        "latestOffset": 474,
        "queryPlanning": 556,
        "triggerExecution": 4888,
        "walCommit": 13,
    },
    "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
    "stateOperators": [
        {
            "operatorName": "applyInPandasWithState",
            "numRowsTotal": 20,
            "numRowsUpdated": 18,
            "allUpdatesTimeMs": 4367,
            "numRowsRemoved": 2,
            "allRemovalsTimeMs": 71,
            "commitTimeMs": 36,
            "memoryUsedBytes": 8360,
            "numRowsDroppedByWatermark": 1,
            "numShufflePartitions": 2,
            "numStateStoreInstances": 2,
            "customMetrics": {
                "rocksdbLoadLatencyMs": 178,
                "rocksdbNumLoadedFromDfs": 2,
                "rocksdbSstFileSize": 3349,
            },
        }
    ],
    "sources": [
        {
            "description": "KafkaV2[Subscribe[coordinator.requests, coordinator.clock]]",
            "startOffset": None,
            "endOffset": None,
            "latestOffset": None,
            "numInputRows": 6,
            "inputRowsPerSecond": 0.0,
            "processedRowsPerSecond": 1.0,
            "metrics": {},
        }
    ],
    "sink": {"description": "Kafka", "numOutputRows": 0},
}


def told(registry: CollectorRegistry, *progresses: dict[str, Any]) -> BatchMetrics:
    """Metrics that have been told of a query and its batches."""
    metrics = BatchMetrics(registry, NAME)
    run_id = UUID(PROGRESS["runId"])
    metrics.onQueryStarted(cast("QueryStartedEvent", SimpleNamespace(name=NAME, runId=run_id)))
    for each in progresses:
        progress = StreamingQueryProgress.fromJson(each)
        metrics.onQueryProgress(cast("QueryProgressEvent", SimpleNamespace(progress=progress)))
    return metrics


def test_what_a_batch_tells() -> None:
    registry = CollectorRegistry()
    told(registry, PROGRESS, PROGRESS)
    found = samples(registry)

    assert math.isnan(found.pop(("group_coordinator_watermark_age_seconds",)))
    duration = ("group_coordinator_batch_duration_seconds_bucket",)
    assert [found.pop((*duration, le)) for le in ("3.0", "5.0", "+Inf")] == [0, 2, 2]
    assert {name: found.pop(name) for name in list(found) if name[:1] == duration}.keys() != set()
    assert {name: round(value, 6) for name, value in found.items()} == {
        ("group_coordinator_query_up",): 1,
        ("group_coordinator_batch_duration_seconds_count",): 2,
        ("group_coordinator_batch_duration_seconds_sum",): 9.776,
        ("group_coordinator_batch_phase_seconds_total", "addBatch"): 7.636,
        ("group_coordinator_batch_phase_seconds_total", "commitOffsets"): 0.008,
        ("group_coordinator_batch_phase_seconds_total", "getBatch"): 0.004,
        ("group_coordinator_batch_phase_seconds_total", "latestOffset"): 0.948,
        ("group_coordinator_batch_phase_seconds_total", "queryPlanning"): 1.112,
        ("group_coordinator_batch_phase_seconds_total", "walCommit"): 0.026,
        ("group_coordinator_input_rows_total",): 12,
        ("group_coordinator_state_rows",): 20,
        ("group_coordinator_state_memory_bytes",): 8360,
        ("group_coordinator_state_disk_bytes",): 3349,
        ("group_coordinator_state_partitions",): 2,
        ("group_coordinator_state_rows_updated_total",): 36,
        ("group_coordinator_state_rows_removed_total",): 4,
        ("group_coordinator_state_rows_dropped_total",): 2,
        ("group_coordinator_state_partition_loads_total",): 4,
        ("group_coordinator_state_load_seconds_total",): 0.356,
        ("group_coordinator_state_update_seconds_total",): 8.734,
        ("group_coordinator_state_timeout_seconds_total",): 0.142,
        ("group_coordinator_state_commit_seconds_total",): 0.072,
    }


def test_a_batch_is_counted_when_its_figures_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prometheus may scrape in between, and so may these tests."""
    registry = CollectorRegistry()
    metrics = told(registry)
    counted: list[float] = []

    def note(*_: object) -> None:
        counted.append(samples(registry)["group_coordinator_batch_duration_seconds_count",])

    for part in metrics._parts:
        monkeypatch.setattr(type(part), "take", note)
    metrics.batch_ended(StreamingQueryProgress.fromJson(PROGRESS))
    assert counted == [0, 0]
    note()
    assert counted[-1] == 1


def test_another_state_store_tells_less() -> None:
    registry = CollectorRegistry()
    (operator,) = PROGRESS["stateOperators"]
    told(registry, PROGRESS | {"stateOperators": [operator | {"customMetrics": {}}]})
    found = samples(registry)

    assert found["group_coordinator_state_rows",] == 20
    assert found["group_coordinator_state_partition_loads_total",] == 0
    assert found["group_coordinator_state_disk_bytes",] == 0


def test_phases_are_there_from_the_start() -> None:
    registry = CollectorRegistry()
    BatchMetrics(registry, NAME)

    phases = {name[1] for name in samples(registry) if name[0].endswith("phase_seconds_total")}
    assert phases == PROGRESS["durationMs"].keys() - {"triggerExecution"}


@pytest.mark.spark
def test_batches_of_a_real_query(spark: SparkSession, tmp_path: Path) -> None:
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry, NAME)
    spark.streams.addListener(metrics)
    # Stateful, with a watermark an hour behind the rows, which are of now.
    counted = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 10)
        .option("startTimestamp", int(time.time() * 1000))
        .option("numPartitions", 1)
        .load()
        .withWatermark("timestamp", "1 hour")
        .selectExpr("timestamp", "value % 3 AS remainder")
        .dropDuplicatesWithinWatermark(["remainder"])
    )
    writing = (
        counted.writeStream.queryName(NAME)
        .format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = writing.start()
    try:
        wait_for(lambda: not math.isnan(samples(registry)["group_coordinator_watermark_age_seconds",]))
        running = samples(registry)
        query.stop()
        wait_for(lambda: samples(registry)["group_coordinator_query_up",] == 0)
        # As on an executor that is new: its partitions are loaded from the checkpoint.
        cast("Any", spark)._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        batches = samples(registry)["group_coordinator_batch_duration_seconds_count",]
        query = writing.start()
        wait_for(lambda: samples(registry)["group_coordinator_batch_duration_seconds_count",] > batches)
        again = samples(registry)
    finally:
        query.stop()
        spark.streams.removeListener(metrics)

    assert running["group_coordinator_query_up",] == 1
    assert running["group_coordinator_state_rows",] == 3
    assert running["group_coordinator_state_rows_updated_total",] == 3
    assert running["group_coordinator_state_partitions",] == 2
    assert running["group_coordinator_state_memory_bytes",] > 0
    assert running["group_coordinator_state_partition_loads_total",] == 0
    assert again["group_coordinator_state_partition_loads_total",] == 2
    assert again["group_coordinator_state_load_seconds_total",] > 0
    assert running["group_coordinator_input_rows_total",] >= 20
    assert running["group_coordinator_batch_duration_seconds_count",] >= 2
    whole = running["group_coordinator_batch_duration_seconds_sum",]
    assert 0 < whole < PATIENCE_S
    # The phases make up the whole, but for moments between them. Both are counted in whole milliseconds.
    phases = [value for name, value in running.items() if name[0].endswith("phase_seconds_total")]
    assert 800 * whole < round(1_000 * sum(phases)) <= round(1_000 * whole)
    age = running["group_coordinator_watermark_age_seconds",]
    assert 3_600 - PATIENCE_S < age < 3_600 + PATIENCE_S


class Journal(StreamingQueryListener):
    """Added after the metrics, so that what it has heard they have heard."""

    def __init__(self) -> None:
        self.ended: list[object] = []

    def onQueryStarted(self, event) -> None: ...

    def onQueryProgress(self, event) -> None: ...

    def onQueryIdle(self, event) -> None: ...

    def onQueryTerminated(self, event) -> None:
        self.ended.append(event.runId)


@pytest.mark.spark
def test_other_queries_of_the_session_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    registry = CollectorRegistry()
    metrics, journal = BatchMetrics(registry, NAME), Journal()
    spark.streams.addListener(metrics)
    spark.streams.addListener(journal)
    rows = spark.readStream.format("rate").load().writeStream.format("noop")
    query = rows.queryName(NAME).option("checkpointLocation", str(tmp_path / "ours")).start()
    try:
        wait_for(lambda: samples(registry)["group_coordinator_query_up",] == 1)
        other = rows.queryName("other").option("checkpointLocation", str(tmp_path / "other")).start()
        other.stop()
        wait_for(lambda: len(journal.ended) == 1)
        assert samples(registry)["group_coordinator_query_up",] == 1
    finally:
        query.stop()
        spark.streams.removeListener(metrics)
        spark.streams.removeListener(journal)
