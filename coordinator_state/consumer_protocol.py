"""The bytes that Kafka's own consumers put into their groups, as far as they are read here.

Subscriptions and assignments are opaque to a coordinator, but for those of protocol type `consumer`.

Source: ConsumerProtocol, ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json of Kafka 4.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CONSUMER = "consumer"
"""Protocol type of Kafka's consumers (ConsumerProtocol.PROTOCOL_TYPE)."""


def topics_of(metadata: bytes) -> list[str]:
    """The topics in a ConsumerProtocolSubscription, as all its versions begin with version 0.

    Raises struct.error if it is none.
    """
    _version, count = struct.unpack_from(">hi", metadata)
    if count < 0:
        raise struct.error("there are fewer topics than none")
    position, topics = 6, []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", metadata, position)
        (name,) = struct.unpack_from(f">{length}s", metadata, position + 2)
        topics.append(name.decode(errors="replace"))
        position += 2 + length
    (user_data_length,) = struct.unpack_from(">i", metadata, position)
    struct.unpack_from(f"{max(user_data_length, 0)}s", metadata, position + 4)
    return topics


def partitions_of(assignment: bytes) -> list[tuple[str, int]]:
    """The topics and partitions in a ConsumerProtocolAssignment, as all its versions begin with version 0.

    No bytes are no partitions. Raises struct.error if it is none.
    """
    if not assignment:
        return []
    _version, count = struct.unpack_from(">hi", assignment)
    position, partitions = 6, []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", assignment, position)
        topic, count_of_topic = struct.unpack_from(f">{length}si", assignment, position + 2)
        position += 2 + length + 4
        numbers = struct.unpack_from(f">{count_of_topic}i", assignment, position)
        position += 4 * count_of_topic
        name = topic.decode(errors="replace")
        partitions += [(name, number) for number in numbers]
    return partitions


def subscription_of(topics: Iterable[str]) -> bytes:
    """A ConsumerProtocolSubscription of version 0 with these topics."""
    names = [topic.encode() for topic in topics]
    parts = [struct.pack(f">h{len(name)}s", len(name), name) for name in names]
    return struct.pack(">hi", 0, len(names)) + b"".join(parts) + struct.pack(">i", -1)


def assignment_of(topics: Iterable[tuple[str, Sequence[int]]]) -> bytes:
    """A ConsumerProtocolAssignment of version 0 with these topics and partitions; no bytes for none."""
    parts = []
    for topic, partitions in topics:
        name = topic.encode()
        numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        parts.append(struct.pack(f">h{len(name)}s", len(name), name) + numbers)
    return struct.pack(">hi", 0, len(parts)) + b"".join(parts) + struct.pack(">i", -1) if parts else b""
