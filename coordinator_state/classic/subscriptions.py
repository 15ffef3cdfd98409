"""What the members of a group have subscribed to, as far as the coordinator can tell.

Subscriptions are opaque bytes of the members' own, but for one protocol type: that of Kafka's consumers. Of
theirs the topics are read, so that offsets of topics that nobody reads any more can be deleted and expire.

Source: ClassicGroup.computeSubscribedTopics of Apache Kafka 4.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup

__all__ = ["CONSUMER", "subscribed_topics"]

CONSUMER = "consumer"
"""Protocol type of Kafka's consumers (ConsumerProtocol.PROTOCOL_TYPE)."""


def subscribed_topics(group: ClassicGroup) -> tuple[str, ...] | None:
    """The topics of all members under the chosen protocol, sorted; None if one cannot be read."""
    if group.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    try:
        for member in group.members.values():
            topics.update(_topics(member.metadata(group.protocol_name)))
    except struct.error:
        return None
    return tuple(sorted(topics))


def _topics(metadata: bytes) -> list[str]:
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
