"""What the members of a group have subscribed to, as far as the coordinator can tell.

Subscriptions are opaque bytes of the members' own, but for one protocol type: that of Kafka's consumers. Of
theirs the topics are read, so that offsets of topics that nobody reads any more can be deleted and expire.

Source: ClassicGroup.computeSubscribedTopics of Apache Kafka 4.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer_protocol import CONSUMER, topics_of

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup

__all__ = ["subscribed_topics"]


def subscribed_topics(group: ClassicGroup) -> tuple[str, ...] | None:
    """The topics of all members under the chosen protocol, sorted; None if one cannot be read."""
    if group.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    try:
        for member in group.members.values():
            topics.update(topics_of(member.metadata(group.protocol_name)))
    except struct.error:
        return None
    return tuple(sorted(topics))
