"""Streaming queries of Spark as consumer groups, with their lag where people look for it.

    progress of a batch ─► listener ─► newest offsets of each group ─► thread ─► coordinator, or brokers

A query keeps its place in its checkpoint, and no tool that reads Kafka's groups sees it. With the listener it
is a group that has no members and commits after each batch.
"""

from group_coordinator.spark.listener import CommitOffsets

__all__ = ["CommitOffsets"]
