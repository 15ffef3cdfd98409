"""Topic metadata: what brokers say of a group's topics, as a record of the group's own key.

A watcher outside writes it, because the core asks no broker. It counts only if it is based on what the group
knows now. So two watchers, or a record that comes twice, do no harm. The next heartbeat of a member compares,
as in Kafka after a new metadata image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.heartbeat import tell_topics

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.requests.consumer import TopicMetadataRequest
    from group_coordinator.coordinator_state.turn import Turn

__all__ = ["take_topic_metadata"]


def take_topic_metadata(turn: Turn[ConsumerGroup], request: TopicMetadataRequest) -> str | None:
    """Take what it says of topics that members name; return why it cannot be so, if it cannot."""
    group, table = turn.group, turn.group.topics
    if request.based_on != table.version:
        return None
    names = group.subscriptions.all_names()
    if (reason := table.refusal(request.topics, names)) is not None:
        return reason
    topics = table.changed_by(request.topics, names)
    if topics and group.bytes_held + table.growth(topics) > turn.config.max_group_bytes:
        return f"the group would be larger than {turn.config.max_group_bytes} bytes (max.group.bytes)"
    gone = table.remove(request.gone)
    if topics:
        table.put(topics)
    if topics or gone:
        group.metadata_changed = True
        tell_topics(turn, topics, gone)
    return None
