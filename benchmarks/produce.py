"""A request that writes one record, as benchmarks send it."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecordsBuilder

__all__ = ["produce"]


def produce(version: int, topic: str, value: bytes = b"a small record") -> Any:
    """Return a Produce of one record to partition 0, which is answered when the leader has it."""
    records = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=len(value) + 1_000)
    records.append(timestamp=None, key=None, value=value, headers=[])
    records.close()
    named = ProduceRequest.TopicProduceData
    partition = named.PartitionProduceData(version=version, index=0, records=records.buffer())
    data = named(version=version, name=topic, partition_data=[partition])
    return ProduceRequest(version=version, acks=1, timeout_ms=1_000, topic_data=[data])
