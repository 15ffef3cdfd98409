"""The topics that the members of a group have subscribed to, as far as the coordinator can tell.

Subscriptions are opaque bytes, except those of Kafka's consumers. The coordinator reads the topics in these,
so that offsets of topics that no member reads any more can be deleted and expire.

Source: ClassicGroup.computeSubscribedTopics of Apache Kafka 4.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer_protocol import CONSUMER, topics_of

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup


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
