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
    entries = ((each, to_commit_one(each, offset)) for each, offset in offsets.items())
    return _lists(entries, OffsetCommitTopic)


def to_commit_one(partition: TopicPartition, offset: OffsetAndMetadata) -> OffsetCommitPartition:
    """Return an offset as a request has it."""
    return OffsetCommitPartition(
        partition_index=partition.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def to_delete(partitions: Iterable[TopicPartition]) -> list[list[OffsetDeleteTopic]]:
    """Return the topics to ask `offset_delete` for."""
    entries = ((each, OffsetDeletePartition(partition_index=each.partition)) for each in partitions)
    return _lists(entries, OffsetDeleteTopic)


def by_topic(
    entries: Iterable[tuple[TopicPartition, Entry]], topic: Callable[[str, list[Entry]], Topic]
) -> list[Topic]:
    """Return the entries of partitions as one request has them."""
    topics: dict[str, list[Entry]] = {}
    for partition, entry in entries:
        topics.setdefault(partition.topic, []).append(entry)
    return [topic(*each) for each in topics.items()]


def _lists(
    entries: Iterable[tuple[TopicPartition, Entry]], topic: Callable[[str, list[Entry]], Topic]
) -> list[list[Topic]]:
    return [by_topic(part, topic) for part in _parts(entries)]


def _parts(entries: Iterable[tuple[TopicPartition, Entry]]) -> Iterator[list[tuple[TopicPartition, Entry]]]:
    part: list[tuple[TopicPartition, Entry]] = []
    size = 0
    for partition, entry in entries:
        if size > _MAX_BYTES:
            yield part
            part, size = [], 0
        part.append((partition, entry))
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
