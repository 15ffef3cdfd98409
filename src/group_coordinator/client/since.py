"""The partitions of a topic, the places from which on its records are not older than a time, and its end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from kafka.structs import TopicPartition

from group_coordinator.client.ask_offsets import offsets_of

_THERE_S = 10.0
_AGAIN_S = 0.1
_POLL_MS = 500


def partitions_of(consumer: KafkaConsumer, topic: str) -> list[TopicPartition]:
    """The partitions of a topic, by number; none if there is no such topic, or it may not be described."""
    with suppress(TopicAuthorizationFailedError, UnknownTopicOrPartitionError):
        return [
            TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
    return []


def partitions_there(consumer: KafkaConsumer, topic: str) -> list[TopicPartition]:
    """The partitions, by number, of a topic that somebody has made.

    Brokers tell of a new topic one after the other. Somebody who took the first answer as it is would read
    nothing for ever. Raises a KafkaError; `UnknownTopicOrPartitionError` if no broker tells of it in time.
    """
    deadline = time.monotonic() + _THERE_S
    while not (numbers := consumer.partitions_for_topic(topic)):
        if time.monotonic() > deadline:
            raise UnknownTopicOrPartitionError(f"there is no topic {topic}")
        time.sleep(_AGAIN_S)
    return [TopicPartition(topic, number) for number in sorted(numbers)]


def offsets_since(
    consumer: KafkaConsumer, ends: Mapping[TopicPartition, int], since_ms: int
) -> dict[TopicPartition, int]:
    """The offset of each partition's first record that is not older than `since_ms`, or else its end.

    `ends`: where the partitions end. Raises a KafkaError.
    """
    found = offsets_of(consumer, dict.fromkeys(ends, since_ms))
    return {each: end if found[each] < 0 else found[each] for each, end in ends.items()}


def has_read_to(consumer: KafkaConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether all has been read that lies before `ends`."""
    return all(consumer.position(each) >= end for each, end in ends.items())


def records_to(consumer: KafkaConsumer, ends: Mapping[TopicPartition, int], timeout_ms: int) -> Iterator[Any]:
    """Read on to `ends`, the records of each partition in their order; those behind may be among them.

    Raises a KafkaError, KafkaTimeoutError if nothing comes for `timeout_ms`.
    """
    deadline_s = time.monotonic() + timeout_ms / 1_000
    while not has_read_to(consumer, ends):
        polled = consumer.poll(timeout_ms=_POLL_MS)
        for records in polled.values():
            yield from records
        if polled:
            # Their taker may work on them for longer than the timeout.
            deadline_s = time.monotonic() + timeout_ms / 1_000
        elif time.monotonic() > deadline_s:
            topics = " and ".join(sorted({repr(each.topic) for each in ends}))
            raise KafkaTimeoutError(f"topic {topics} could not be read for {timeout_ms} ms")
