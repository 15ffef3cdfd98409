"""Prometheus metrics of the coordinator.

Four sources: what the stateful function counts on the executors, what Spark says of each batch, the newest
pictures of the groups, read from their compacted topic like any other reader would, and the job itself.
What each of them means, and what Kafka calls it, is in docs/operations.md.
"""

from __future__ import annotations

from group_coordinator.streaming.metrics.decisions import DecisionMetrics
from group_coordinator.streaming.metrics.groups import GroupMetrics
from group_coordinator.streaming.metrics.job import JobMetrics, Watch

__all__ = ["DecisionMetrics", "GroupMetrics", "JobMetrics", "Watch"]
