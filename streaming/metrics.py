"""Prometheus metrics of the coordinator.

Three sources: what the stateful function counts on the executors, what Spark says of each batch, and the
newest pictures of the groups, read from their compacted topic like any other reader would.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import msgspec
from kafka import KafkaConsumer, TopicPartition
from prometheus_client import CollectorRegistry, Gauge, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import StreamingQueryListener

from coordinator_state.states import GroupState
from streaming.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from uuid import UUID

    from prometheus_client.core import Metric
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

__all__ = ["BatchMetrics", "DecisionMetrics", "GroupMetrics", "serve_metrics"]

_log = logging.getLogger(__name__)
_PREFIX = "group_coordinator"


def serve_metrics(port: int, registry: CollectorRegistry) -> tuple[int, Callable[[], None]]:
    """Serve `registry` on `port` (0: any free one); return the port and a function that ends it.

    Raises `SettingsError` if the port cannot be had.
    """
    try:
        server, thread = start_http_server(port, registry=registry)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on metrics.port {port}: {error.strerror}; "
            "choose another, 0 for any, or -1 for none"
        ) from None

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, close


class DecisionMetrics(Collector):
    """What was asked, answered and decided. `counts` returns the sums so far, as `StepResult` has them."""

    def __init__(self, counts: Callable[[], Mapping[tuple[str, str, str], int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Make the metrics from the sums as they are now."""
        requests = CounterMetricFamily(f"{_PREFIX}_requests", "Requests applied.", labels=["api"])
        responses = CounterMetricFamily(f"{_PREFIX}_responses", "Responses.", labels=["api", "error"])
        removed = CounterMetricFamily(f"{_PREFIX}_members_removed", "Members gone.", labels=["reason"])
        moves = CounterMetricFamily(f"{_PREFIX}_state_changes", "Moves of groups.", labels=["to"])
        offsets = CounterMetricFamily(f"{_PREFIX}_offsets", "Offsets committed and gone.", labels=["change"])
        rejected = rebalances = expirations = 0
        for (what, first, second), count in sorted(self._counts().items()):
            match what, first:
                case "requests", api:
                    requests.add_metric([api], count)
                case "responses", api:
                    responses.add_metric([api, second], count)
                case "offsets", change:
                    offsets.add_metric([change], count)
                case "rejected", _:
                    rejected += count
                case "events", "member_removed":
                    removed.add_metric([second], count)
                    expirations += count if second == "session_expired" else 0
                case "events", "state_changed":
                    moves.add_metric([second], count)
                    rebalances += count if second == GroupState.PREPARING_REBALANCE else 0
        yield from (requests, responses, removed, moves, offsets)
        yield CounterMetricFamily(f"{_PREFIX}_requests_rejected", "Records that are no requests.", rejected)
        yield CounterMetricFamily(f"{_PREFIX}_rebalances", "Join phases begun.", rebalances)
        yield CounterMetricFamily(f"{_PREFIX}_session_expirations", "Members that fell silent.", expirations)


class BatchMetrics(StreamingQueryListener):
    """What Spark says of the query named `query_name` and its batches; a session may have others."""

    def __init__(self, registry: CollectorRegistry, query_name: str) -> None:
        self._query_name = query_name
        self._run_id: UUID | None = None
        self._watermark_s: float | None = None
        self._up = Gauge(f"{_PREFIX}_query_up", "1 while the query runs.", registry=registry)
        self._duration = Histogram(
            f"{_PREFIX}_batch_duration_seconds",
            "Time from the trigger of a batch to its commit.",
            buckets=(0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60),
            registry=registry,
        )
        self._lag = Gauge(
            f"{_PREFIX}_input_lag_records",
            "Records that the newest batch left unread, in the topic partition with the most.",
            registry=registry,
        )
        self._rows = Gauge(f"{_PREFIX}_state_rows", "Groups in the state.", registry=registry)
        age = Gauge(
            f"{_PREFIX}_watermark_age_seconds",
            "How far the watermark, by which deadlines fire, is behind the clock; NaN before the first tick.",
            registry=registry,
        )
        age.set_function(self._watermark_age)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Note that the query runs."""
        if event.name == self._query_name:
            self._run_id = event.runId
            self._up.set(1)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take over the figures of a batch."""
        progress = event.progress
        if progress.runId != self._run_id:
            return
        self._duration.observe(progress.durationMs["triggerExecution"] / 1000)
        lags = [float(source.metrics.get("maxOffsetsBehindLatest", 0)) for source in progress.sources]
        self._lag.set(max(lags, default=0))
        self._rows.set(sum(operator.numRowsTotal for operator in progress.stateOperators))
        watermark = progress.eventTime.get("watermark")
        if watermark is not None:
            seconds = _epoch_s(watermark)
            self._watermark_s = seconds if seconds > 0 else None

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing to note: ticks keep the query from being idle."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Note that the query has ended."""
        if event.runId == self._run_id:
            self._up.set(0)

    def _watermark_age(self) -> float:
        return float("nan") if self._watermark_s is None else time.time() - self._watermark_s


def _epoch_s(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


class _Picture(msgspec.Struct):
    """As much of a `GroupPicture` as is counted."""

    state: str
    members: list[msgspec.Raw]


class GroupMetrics(Collector):
    """Groups by state, and members, as of the newest pictures."""

    def __init__(self, topic: str, client_config: Mapping[str, Any]) -> None:
        self._groups: dict[bytes, tuple[str, int]] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._consumer = KafkaConsumer(**client_config, group_id=None, enable_auto_commit=False)
        partitions = [
            TopicPartition(topic, number) for number in self._consumer.partitions_for_topic(topic) or ()
        ]
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning(*partitions)
        self._thread = threading.Thread(target=self._read, name="group-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def collect(self) -> Iterator[Metric]:
        """Make the metrics from the pictures read so far."""
        with self._lock:
            groups = list(self._groups.values())
        by_state = Counter(state for state, _ in groups)
        states = GaugeMetricFamily(f"{_PREFIX}_groups", "Groups by state.", labels=["state"])
        for state in GroupState:
            if state is not GroupState.DEAD:
                states.add_metric([state], by_state[state])
        yield states
        yield GaugeMetricFamily(f"{_PREFIX}_members", "Members.", sum(members for _, members in groups))

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(_Picture)
        while not self._stopping.is_set():
            for records in self._consumer.poll(timeout_ms=500).values():
                with self._lock:
                    for record in records:
                        if record.value is None:
                            self._groups.pop(record.key, None)
                        else:
                            try:
                                picture = decoder.decode(record.value)
                            except msgspec.DecodeError:
                                _log.warning("a record of topic %s is no picture of a group", record.topic)
                            else:
                                self._groups[record.key] = (picture.state, len(picture.members))
