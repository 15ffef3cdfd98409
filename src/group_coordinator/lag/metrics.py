"""Lag for Prometheus, with kafka-lag-exporter's names and labels where they mean the same."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from group_coordinator.jobs.health import Verdict, moving
from group_coordinator.lag.course import Status
from group_coordinator.lag.trend import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import Metric

    from group_coordinator.lag.book import GroupLag, PartitionLag

_THEIRS, _OURS = "kafka_consumergroup_", "group_coordinator_lag_"
_MISSED = 4
"""Measurements that may fail before it is not ready."""


class _Measurement(NamedTuple):
    at_s: float
    took_s: float
    groups: list[GroupLag]
    left_out: int


class LagMetrics:
    """The newest measurement as metrics, and the health of what measures.

    `now_s`: the time of day, in seconds.
    """

    def __init__(self, cluster_name: str, interval_s: float, now_s: Callable[[], float] = time.time) -> None:
        self._cluster_name, self._interval_s, self._now_s = cluster_name, interval_s, now_s
        self._moved_s = now_s()
        self._newest: _Measurement | None = None
        self._problem = "nothing is measured yet"
        self._writes = {"written": 0, "lost": 0}

    def measured(self, took_s: float, groups: list[GroupLag], left_out: int) -> None:
        """Replace the measurement that is shown."""
        self._newest = _Measurement(self._now_s(), took_s, groups, left_out)

    def wrote(self, written: int, lost: int) -> None:
        """Add to the records that were written to the topic, and to those that could not be."""
        self._writes["written"] += written
        self._writes["lost"] += lost

    def moves(self) -> None:
        """The loop has come round."""
        self._moved_s = self._now_s()

    def has_problem(self, problem: str) -> None:
        """Measuring has failed, for this reason."""
        self._problem = problem

    # -- probes ------------------------------------------------------------------------------------

    def is_live(self) -> Verdict:
        """Whether all that should move moves: if not, only a restart helps."""
        return moving(self._now_s() - self._moved_s, "running")

    def is_ready(self) -> Verdict:
        """Whether the figures are fresh."""
        if self._newest is None:
            return Verdict(False, self._problem)
        age_s = self._now_s() - self._newest.at_s
        if age_s > _MISSED * self._interval_s:
            return Verdict(False, f"nothing was measured for {age_s:.0f} s: {self._problem}")
        return Verdict(True, f"measuring {len(self._newest.groups)} groups")

    # -- what Prometheus collects --------------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        """The metrics. There are none before the first measurement, rather than wrong ones."""
        if self._newest is None:
            return
        newest = self._newest
        yield from self._of_partitions(newest.groups)
        yield from self._of_groups(newest.groups)
        for name, documentation, value in (
            ("measured_timestamp_seconds", "The time of these figures.", newest.at_s),
            ("measurement_seconds", "The time that it took to measure them.", newest.took_s),
            ("groups_left_out", "Groups that are not measured: lag.max.partitions.", newest.left_out),
        ):
            metric = GaugeMetricFamily(_OURS + name, documentation)
            metric.add_metric([], value)
            yield metric
        writes = CounterMetricFamily(
            f"{_OURS}writes", "Measurements of groups for the topic of lag, by result.", labels=["result"]
        )
        for result, count in self._writes.items():
            writes.add_metric([result], count)
        yield writes

    def _of_partitions(self, groups: list[GroupLag]) -> Iterator[Metric]:
        labels = ["cluster_name", "group", "topic", "partition"]
        families = [
            GaugeMetricFamily(f"{_THEIRS}group_{name}", documentation, labels=labels)
            for name, documentation in (
                ("offset", "The committed offset."),
                ("lag", "Records between the committed offset and the end of the log."),
                ("lag_seconds", "Age of the oldest record that the group has not committed past."),
            )
        ]
        ends = {}
        for group in groups:
            for each in group.partitions:
                where = [
                    self._cluster_name,
                    group.group_id,
                    each.partition.topic,
                    str(each.partition.partition),
                ]
                figures = (each.committed, each.records, each.age_ms / 1_000)
                for family, figure in zip(families, figures, strict=True):
                    family.add_metric(where, figure)
                ends[each.partition] = each.end
        yield from families
        latest = GaugeMetricFamily(
            "kafka_partition_latest_offset",
            "The end of the log.",
            labels=["cluster_name", "topic", "partition"],
        )
        for partition, end in sorted(ends.items()):
            latest.add_metric([self._cluster_name, partition.topic, str(partition.partition)], end)
        yield latest

    def _of_groups(self, groups: list[GroupLag]) -> Iterator[Metric]:
        with_lag = [group for group in groups if group.partitions]
        figures: list[tuple[str, str, Callable[[GroupLag], float]]] = [
            ("group_sum_lag", "The sum of the lags of its partitions.", lambda it: it.records),
            ("group_max_lag", "The largest lag.", lambda it: max(each.records for each in it.partitions)),
            (
                "group_max_lag_seconds",
                "The largest lag in seconds.",
                lambda it: max(each.age_ms for each in it.partitions) / 1_000,
            ),
        ]
        for name, documentation, figure in figures:
            yield self._by_group(
                _THEIRS + name, documentation, {each.group_id: figure(each) for each in with_lag}
            )
        by_topic = GaugeMetricFamily(
            f"{_THEIRS}group_topic_sum_lag",
            "The sum of the lags of a topic's partitions.",
            labels=["cluster_name", "group", "topic"],
        )
        statuses = GaugeMetricFamily(
            f"{_OURS}partitions", "Partitions by status.", labels=["cluster_name", "group", "status"]
        )
        for group in with_lag:
            of_topics: defaultdict[str, int] = defaultdict(int)
            for each in group.partitions:
                of_topics[each.partition.topic] += each.records
            for topic, records in of_topics.items():
                by_topic.add_metric([self._cluster_name, group.group_id, topic], records)
            counts = group.statuses
            for status in Status:
                statuses.add_metric([self._cluster_name, group.group_id, status.value], counts[status])
        yield by_topic
        yield statuses
        yield self._by_group(
            f"{_OURS}growing",
            "1 if the lag grows, else 0.",
            {each.group_id: each.trend.direction is Direction.GROWING for each in with_lag},
        )
        clearing = {each.group_id: each.trend.clear_in_ms for each in with_lag}
        yield self._by_group(
            f"{_OURS}clears_seconds",
            "In how many seconds the lag is gone if it falls on as it does; only of groups whose lag falls.",
            {group_id: ms / 1_000 for group_id, ms in clearing.items() if ms is not None},
        )
        yield from self._of_losses(with_lag)
        yield self._by_group(
            f"{_OURS}error_seconds",
            "By how much the group's lag in seconds may be wrong; infinite if it may be any amount more.",
            {each.group_id: max(map(_error_s, each.partitions)) for each in with_lag},
        )

    def _of_losses(self, with_lag: list[GroupLag]) -> Iterator[Metric]:
        yield self._by_group(
            f"{_OURS}lost_records",
            "Records that retention has deleted before the group had committed past them.",
            {each.group_id: each.lost for each in with_lag},
        )
        losing = {each.group_id: each.lost_in_ms for each in with_lag}
        yield self._by_group(
            f"{_OURS}lost_in_seconds",
            "In how many seconds retention deletes records that the group has left, if it goes on so; 0 if "
            "it has; only of groups that it comes nearer to.",
            {group_id: ms / 1_000 for group_id, ms in losing.items() if ms is not None},
        )

    def _by_group(self, name: str, documentation: str, figures: dict[str, float]) -> Metric:
        metric = GaugeMetricFamily(name, documentation, labels=["cluster_name", "group"])
        for group_id, figure in figures.items():
            metric.add_metric([self._cluster_name, group_id], figure)
        return metric


def _error_s(lag: PartitionLag) -> float:
    return math.inf if lag.is_at_least else lag.error_ms / 1_000
