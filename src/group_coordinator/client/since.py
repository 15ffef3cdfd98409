"""The places in a topic from which on its records are not older than a time."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from kafka import KafkaConsumer
from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from kafka.structs import TopicPartition

from group_coordinator.client.ask_offsets import offsets_of

__all__ = ["offsets_since", "partitions_of"]


def partitions_of(consumer: KafkaConsumer, topic: str) -> list[TopicPartition]:
    """The partitions of a topic, by number; none if there is no such topic, or it may not be described."""
    with suppress(TopicAuthorizationFailedError, UnknownTopicOrPartitionError):
        return [
            TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
    return []


def offsets_since(
    consumer: KafkaConsumer, ends: Mapping[TopicPartition, int], since_ms: int
) -> dict[TopicPartition, int]:
    """The offset of each partition's first record that is not older than `since_ms`, or else its end.

    `ends`: where the partitions end. Raises a KafkaError.
    """
    found = offsets_of(consumer, dict.fromkeys(ends, since_ms))
    return {each: end if found[each] < 0 else found[each] for each, end in ends.items()}
