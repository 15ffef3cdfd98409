"""A range of the request topic, read without Spark."""

from __future__ import annotations

from contextlib import ExitStack
from heapq import merge
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.client.ask_offsets import begins_of
from group_coordinator.coordinator_state.log import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_POLL_MS = 1_000


def read_requests(
    client_config: Mapping[str, Any],
    topic: str,
    start: Mapping[int, int],
    end: Mapping[int, int],
) -> Iterator[Record]:
    """Records from `start` to before `end`, by partition, in the order in which the core reads them.

    Raises `CheckpointError` if some of them are gone, and `KafkaError`.
    """
    with ExitStack() as stack:
        partitions = []
        # A consumer each: to merge them, none may run ahead of the others.
        for number in sorted(end):
            consumer = KafkaConsumer(**client_config, group_id=None, enable_auto_commit=False)
            stack.callback(consumer.close)
            partition = TopicPartition(topic, number)
            first = start.get(number, 0)
            if first < end[number] and (begin := begins_of(consumer, [partition])[partition]) > first:
                raise CheckpointError(
                    f"{topic}-{number} begins at offset {begin}, and {first} is wanted: the records before "
                    "are gone. Begin later, or with a newer export"
                )
            partitions.append(_timed(consumer, partition, first, end[number]))
        for *_, record in merge(*partitions, key=lambda entry: entry[:3]):
            yield record


def _timed(
    consumer: KafkaConsumer, partition: TopicPartition, start: int, end: int
) -> Iterator[tuple[int, int, int, Record]]:
    """The records of a partition with their times, which do not go back within it."""
    consumer.assign([partition])
    consumer.seek(partition, start)
    time_ms = 0
    # By position: the last offsets of a range may be a transaction's marks, which are no records.
    while consumer.position(partition) < end:
        for polled in consumer.poll(timeout_ms=_POLL_MS).get(partition, ()):
            if polled.offset < end:
                record = Record(
                    polled.topic, polled.partition, polled.offset, polled.timestamp, polled.key, polled.value
                )
                if record.is_probe:
                    continue
                time_ms = max(time_ms, record.timestamp_ms)
                yield time_ms, record.partition, record.offset, record
