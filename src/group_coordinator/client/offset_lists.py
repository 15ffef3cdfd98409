"""Offsets by partition, as programs have them, and by topic, as requests and answers have them.

A request of the coordinator has a largest size, so what is long becomes several lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from kafka.errors import KafkaError, for_code
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.coordinator_state.requests import (
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDeletePartition,
    OffsetDeleteTopic,
    OffsetFetchTopic,
)
from group_coordinator.coordinator_state.responses import (
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)

__all__ = ["NOTHING", "committed", "errors_of", "to_commit", "to_delete", "to_fetch"]

# A tenth of `max.request.bytes`, which nobody would set lower; an entry may be as large as 16 kB.
_MAX_BYTES = 100_000

NOTHING = OffsetAndMetadata(-1, "", -1)
"""Nothing is committed there."""

Entry = TypeVar("Entry")
Topic = TypeVar("Topic")


def to_fetch(partitions: Iterable[TopicPartition]) -> list[list[OffsetFetchTopic]]:
    """Return the topics to ask `offset_fetch` for."""
    return _lists(((each, each.partition) for each in partitions), OffsetFetchTopic)


def to_commit(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[list[OffsetCommitTopic]]:
    """Return the topics to ask `offset_commit` for."""
    entries = (
        (
            partition,
            OffsetCommitPartition(
                partition_index=partition.partition,
                committed_offset=each.offset,
                committed_leader_epoch=-1 if each.leader_epoch is None else each.leader_epoch,
                committed_metadata=each.metadata,
            ),
        )
        for partition, each in offsets.items()
    )
    return _lists(entries, OffsetCommitTopic)


def to_delete(partitions: Iterable[TopicPartition]) -> list[list[OffsetDeleteTopic]]:
    """Return the topics to ask `offset_delete` for."""
    entries = ((each, OffsetDeletePartition(partition_index=each.partition)) for each in partitions)
    return _lists(entries, OffsetDeleteTopic)


def _lists(
    entries: Iterable[tuple[TopicPartition, Entry]], topic: Callable[[str, list[Entry]], Topic]
) -> list[list[Topic]]:
    return [[topic(name, of_topic) for name, of_topic in part.items()] for part in _parts(entries)]


def _parts(entries: Iterable[tuple[TopicPartition, Entry]]) -> Iterator[dict[str, list[Entry]]]:
    part: dict[str, list[Entry]] = {}
    size = 0
    for partition, entry in entries:
        if size > _MAX_BYTES:
            yield part
            part, size = {}, 0
        part.setdefault(partition.topic, []).append(entry)
        size += len(msgspec.json.encode((partition.topic, entry)))
    if part:
        yield part


def committed(answer: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets of an answer. As for Kafka, a negative one means that nothing is."""
    return {
        TopicPartition(topic.name, each.partition_index): OffsetAndMetadata(
            each.committed_offset, each.metadata, each.committed_leader_epoch
        )
        for topic in answer.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def errors_of(answer: OffsetCommitResponse | OffsetDeleteResponse) -> dict[TopicPartition, type[KafkaError]]:
    """Return the error of each partition in an answer; NoError if all is well."""
    return {
        TopicPartition(topic.name, each.partition_index): for_code(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }
