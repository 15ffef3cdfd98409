"""The offsets that a streaming query has reached, in what Spark tells of a batch."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kafka.structs import TopicPartition
from pyspark.sql.streaming.listener import SourceProgress


def end_offsets(sources: Iterable[SourceProgress]) -> dict[TopicPartition, int]:
    """Return the next offset to read of each partition that the query's Kafka sources read.

    A partition that several sources read is read so far as the slowest of them has come. Raises `ValueError`
    for offsets in another form than Spark's Kafka source has: {"topic": {"partition": offset}}.
    """
    reached: dict[TopicPartition, int] = {}
    for source in sources:
        if not source.description.startswith("Kafka"):
            continue
        try:
            told = {
                TopicPartition(topic, int(partition)): int(offset)
                for topic, partitions in json.loads(source.endOffset).items()
                for partition, offset in partitions.items()
            }
        except (ValueError, TypeError, AttributeError):
            raise ValueError(f"{source.description} has the end offsets {source.endOffset!r}") from None
        for partition, offset in told.items():
            reached[partition] = min(offset, reached.get(partition, offset))
    return reached
