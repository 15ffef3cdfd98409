"""The one rule for all readers of committed offsets: nothing is committed for a topic that is no more.

A broker deletes the offsets of a partition with it. The coordinator keeps them, because a unit of work need
not be a topic. A topic that is made again has the name of the one before, and another id (KIP-516). A client
that goes on in it where the one before ended skips records in silence.

Source: GroupCoordinatorService.onPartitionsDeleted of Apache Kafka 4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.responses import FetchedOffset, FetchedOffsetsOfTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Found(NamedTuple):
    """A topic as Kafka has it now."""

    partitions: int | None
    """How many there are; 0: there is no such topic. None: it may not be seen, and nothing is judged."""
    topic_id: str = ""
    """Its id; empty if Kafka tells none."""


_UNSEEN = Found(None)


def with_ids(topics: Iterable[FetchedOffsetsOfTopic]) -> set[str]:
    """The topics whose ids some of these offsets have."""
    return {topic.name for topic in topics if any(each.topic_id for each in topic.partitions)}


def still_there(
    topics: Iterable[FetchedOffsetsOfTopic], found: Mapping[str, Found], *, is_all: bool
) -> list[FetchedOffsetsOfTopic]:
    """The offsets without those of topics and partitions that are no more. Topics not `found` are not judged.

    `is_all`: they are left out. Otherwise nothing is committed for them. There an offset without an id stays,
    because a unit of work need not be a topic.
    """
    told = []
    for topic in topics:
        partitions = []
        for each in topic.partitions:
            is_judged = is_all or each.topic_id
            known = found.get(topic.name, _UNSEEN)
            if not (is_judged and is_gone(each.topic_id or "", each.partition_index, known)):
                partitions.append(each)
            elif not is_all:
                partitions.append(FetchedOffset(partition_index=each.partition_index))
        if partitions or not is_all:
            told.append(FetchedOffsetsOfTopic(topic.name, partitions))
    return told


def is_gone(topic_id: str, partition_index: int, topic: Found) -> bool:
    """Whether an offset is of what is no more. `topic_id`: as the commit gave it; empty if it gave none."""
    if topic.partitions is None:
        return False
    return is_made_again(topic_id, topic) or partition_index >= topic.partitions


def is_made_again(topic_id: str, topic: Found) -> bool:
    """Whether the topic has another id than a commit gave; no if one of them is empty."""
    return bool(topic_id and topic.topic_id) and topic_id != topic.topic_id
