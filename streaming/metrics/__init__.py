"""Prometheus metrics of the coordinator.

There are four sources: the stateful function's counts on the executors, Spark's figures of batches, the
newest pictures of the groups, and the job. The pictures are read from their compacted topic.
docs/operations.md says what each metric means, and what Kafka calls it.
"""

from __future__ import annotations

from group_coordinator.streaming.metrics.decisions import DecisionMetrics
from group_coordinator.streaming.metrics.groups import GroupMetrics
from group_coordinator.streaming.metrics.job import JobMetrics, Watch

__all__ = ["DecisionMetrics", "GroupMetrics", "JobMetrics", "Watch"]
