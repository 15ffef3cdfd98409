"""Topic metadata: what brokers say of a group's topics, as a record of the group's own key.

A watcher outside writes it, because the core asks no broker. It counts only if it is based on what the group
knows now. So two watchers, or a record that comes twice, do no harm. The next heartbeat of a member compares,
as in Kafka after a new metadata image.

It may also say what patterns of members match. Then a new epoch begins at once, as in Kafka when a pattern
has been resolved (GroupMetadataManager.handleRegularExpressionsResult).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.advance import advance_epoch
from group_coordinator.coordinator_state.consumer.subscribing import tell_topics
from group_coordinator.coordinator_state.events import RebalanceCause

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.requests.consumer import TopicMetadataRequest
    from group_coordinator.coordinator_state.turn import Turn


def take_topic_metadata(turn: Turn[ConsumerGroup], request: TopicMetadataRequest) -> str | None:
    """Take what it says of topics that members name, and of their patterns.

    Returns why it cannot be so, if it cannot.
    """
    group, table, subscriptions = turn.group, turn.group.topics, turn.group.subscriptions
    if request.based_on != table.version:
        return None
    resolved = subscriptions.changed_by(request.patterns)
    after = subscriptions.with_resolved(resolved) if resolved else subscriptions
    names = after.all_names()
    if (reason := table.refusal(request.topics, names)) is not None:
        return reason
    topics = table.changed_by(request.topics, names)
    growth = table.growth(topics)
    if resolved:
        growth += after.bytes_of_members - subscriptions.bytes_of_members
        growth += after.bytes_of_patterns - subscriptions.bytes_of_patterns
    if (topics or resolved) and group.bytes_held + growth > turn.config.max_group_bytes:
        return f"the group would be larger than {turn.config.max_group_bytes} bytes (max.group.bytes)"
    are_others = group.resolve(after) if resolved else False
    gone = table.remove(request.gone)
    if topics:
        table.put(topics)
    if topics or any(name in names for name in gone):
        group.metadata_changed = True
    if topics or gone or resolved:
        tell_topics(turn, topics, gone, resolved)
    if are_others:
        advance_epoch(turn, RebalanceCause.TOPICS_CHANGED, "a pattern matches other topics")
    return None
