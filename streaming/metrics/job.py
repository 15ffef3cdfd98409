"""Metrics of the job between the queries that it runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import Counter, Gauge

from group_coordinator.streaming.watching.report import Report

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from group_coordinator.coordinator_state.outages import Outage
    from group_coordinator.jobs.batches import BatchWatch
    from group_coordinator.jobs.health import Health
    from group_coordinator.streaming.counts import Counts


class JobMetrics:
    """Metrics of the job between the queries that it runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge, counter = partial(Gauge, registry=registry), partial(Counter, registry=registry)
        self.standby = gauge(
            "group_coordinator_standby", "1 while another coordinator runs, and this one waits."
        )
        self.closed = gauge(
            "group_coordinator_closed", "1 while there are max.groups groups, and no new ones."
        )
        self.short_worker = gauge(
            "group_coordinator_short_worker",
            "1 with the project's own Python worker, 0 with pyspark's, which holds a tenth of the groups.",
        )
        self._outages = counter(
            "group_coordinator_outages", "Times that there was no coordinator, or no clock."
        )
        self._outage_seconds = counter(
            "group_coordinator_outage_seconds", "How long all of them took, which no deadline did."
        )
        self.standing = gauge(
            "group_coordinator_request_partitions_standing",
            "Request partitions that take no requests, so that time stands still for their groups.",
        )
        self.clock_skew = gauge(
            "group_coordinator_clock_skew_seconds",
            "By how much the clock of the broker that leads the clock topic is ahead of log time.",
        )
        self.topics = Report(registry)

    def outage(self, outage: Outage, *, is_longer: bool = False) -> None:
        """One is over. `is_longer`: it only went on for so long after the one that was told before."""
        if not is_longer:
            self._outages.inc()
        self._outage_seconds.inc((outage.end_ms - outage.start_ms) / 1000)


class Vitals(NamedTuple):
    """All that tells how the job is: to itself, to its clock, and to its port."""

    batches: BatchWatch
    health: Health
    metrics: JobMetrics
    counts: Counts
