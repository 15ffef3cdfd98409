"""Metrics of the query's batches, as Spark tells them."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from group_coordinator.jobs.listener import QueryListener

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql.streaming.listener import StateOperatorProgress, StreamingQueryProgress

_WHOLE = "triggerExecution"
_PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 120, 300)


class BatchMetrics(QueryListener):
    """Metrics of the query and its batches, as Spark tells them.

    `is_stateful`: whether it has a stateful operator, and with it a watermark.
    """

    def __init__(self, registry: CollectorRegistry, query_name: str, *, is_stateful: bool = True) -> None:
        super().__init__(query_name)
        self._up = Gauge("group_coordinator_query_up", "1 while the query runs.", registry=registry)
        self._duration = Histogram(
            "group_coordinator_batch_duration_seconds",
            "Time from the trigger of a batch to its commit.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._phases = Counter(
            "group_coordinator_batch_phase_seconds",
            "What the time of the batches went into, by Spark's names.",
            ["phase"],
            registry=registry,
        )
        for phase in _PHASES:
            self._phases.labels(phase)
        self._rows = Counter(
            "group_coordinator_input_rows", "Records read, ticks among them.", registry=registry
        )
        self._parts = (_Watermark(registry), _State(registry)) if is_stateful else ()

    def started(self) -> None:
        """Note that the query runs."""
        self._up.set(1)

    def batch_ended(self, progress: StreamingQueryProgress) -> None:
        """Take over the figures of a batch."""
        self._rows.inc(progress.numInputRows)
        for part in self._parts:
            part.take(progress)
        for phase in progress.durationMs.keys() - {_WHOLE}:
            self._phases.labels(phase).inc(progress.durationMs[phase] / 1000)
        # Last, so that a scrape that counts a batch has its other figures as well.
        self._duration.observe(progress.durationMs[_WHOLE] / 1000)

    def terminated(self) -> None:
        """Note that the query has ended."""
        self._up.set(0)


class _Watermark:
    """How far time has come, by which deadlines fire."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._watermark_s: float | None = None
        age = Gauge(
            "group_coordinator_watermark_age_seconds",
            "How far the watermark, by which deadlines fire, is behind the clock; NaN before the first tick.",
            registry=registry,
        )
        age.set_function(self._watermark_age)

    def take(self, progress: StreamingQueryProgress) -> None:
        watermark = progress.eventTime.get("watermark")
        if watermark is not None:
            seconds = datetime.fromisoformat(watermark).timestamp()
            self._watermark_s = seconds if seconds > 0 else None

    def _watermark_age(self) -> float:
        return float("nan") if self._watermark_s is None else time.time() - self._watermark_s


class _State:
    """The stateful operator, of which there is one. What begins with `rocksdb` only that state store says."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, documentation: str) -> Gauge:
            return Gauge(f"group_coordinator_state_{name}", documentation, registry=registry)

        def counter(name: str, documentation: str) -> Counter:
            return Counter(f"group_coordinator_state_{name}", documentation, registry=registry)

        self._rows = gauge("rows", "Groups in the state.")
        self._memory = gauge("memory_bytes", "Memory that the state takes on the executors.")
        self._disk = gauge("disk_bytes", "Files of the state on the executors.")
        self._partitions = gauge("partitions", "Partitions of the state.")
        self._updated = counter("rows_updated", "Groups written to the state.")
        self._removed = counter("rows_removed", "Groups removed from the state.")
        self._dropped = counter("rows_dropped", "Records dropped as late, which none must ever be.")
        self._loads = counter("partition_loads", "State partitions loaded from the checkpoint.")
        self._load_seconds = counter("load_seconds", "Time for loading state partitions, of all tasks.")
        self._update_seconds = counter("update_seconds", "Time for applying records, of all tasks.")
        self._timeout_seconds = counter("timeout_seconds", "Time for what is due by itself, of all tasks.")
        self._commit_seconds = counter("commit_seconds", "Time for committing the state, of all tasks.")

    def take(self, progress: StreamingQueryProgress) -> None:
        for operator in progress.stateOperators:
            self._take(operator)

    def _take(self, operator: StateOperatorProgress) -> None:
        custom = operator.customMetrics
        self._rows.set(operator.numRowsTotal)
        self._memory.set(operator.memoryUsedBytes)
        self._disk.set(custom.get("rocksdbSstFileSize", 0))
        self._partitions.set(operator.numShufflePartitions)
        self._updated.inc(operator.numRowsUpdated)
        self._removed.inc(operator.numRowsRemoved)
        self._dropped.inc(operator.numRowsDroppedByWatermark)
        self._loads.inc(custom.get("rocksdbNumLoadedFromDfs", 0))
        self._load_seconds.inc(custom.get("rocksdbLoadLatencyMs", 0) / 1000)
        self._update_seconds.inc(operator.allUpdatesTimeMs / 1000)
        self._timeout_seconds.inc(operator.allRemovalsTimeMs / 1000)
        self._commit_seconds.inc(operator.commitTimeMs / 1000)
