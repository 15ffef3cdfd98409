"""Prometheus metrics of the coordinator.

The stateful function counts on the executors, and Spark tells figures of batches. The newest pictures of the
groups are read from their compacted topic. The other sources are the checkpoint's disk and the job.
docs/monitor.md says what each metric means, and what Kafka calls it.
"""

from __future__ import annotations

from group_coordinator.streaming.metrics.checkpoint import CheckpointMetrics
from group_coordinator.streaming.metrics.decisions import DecisionMetrics
from group_coordinator.streaming.metrics.groups import GroupMetrics
from group_coordinator.streaming.metrics.job import JobMetrics, Vitals

__all__ = ["CheckpointMetrics", "DecisionMetrics", "GroupMetrics", "JobMetrics", "Vitals"]
