"""A member's subscription, as its heartbeat says it: topics by name, a pattern, or both.

The core compiles no pattern. A heartbeat may bring what its pattern matches (`resolved`). That counts if
nobody has resolved the pattern for the same user before; after that topic metadata says it. So members that
see different topics for a moment cannot make the group go back and forth. A pattern that came without it
matches nothing until the watcher of topics has resolved it.

Source: GroupMetadataManager.maybeUpdateRegularExpressions and hasMemberSubscriptionChanged of Apache Kafka
4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from group_coordinator.coordinator_state.consumer.picture import told_patterns
from group_coordinator.coordinator_state.consumer.subscriptions import Pattern, Subscriptions, Wanted
from group_coordinator.coordinator_state.events import SubscriptionChanged, TopicsChanged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.consumer.topic_table import Topic
    from group_coordinator.coordinator_state.requests import ConsumerGroupHeartbeatRequest
    from group_coordinator.coordinator_state.turn import Turn


class Change(NamedTuple):
    """The thing that a heartbeat did to its member's subscription.

    `is_another`: it is another one than before. `is_epoch`: a new group epoch begins by that.
    """

    is_another: bool = False
    is_epoch: bool = False


def wanted_by(request: ConsumerGroupHeartbeatRequest, subscriptions: Subscriptions, number: int) -> Wanted:
    """The subscription that a member has after this heartbeat; `number`: the one before; negative: none."""
    before = subscriptions.wanted(number) if number >= 0 else Wanted(())
    names, text = before.names, request.subscribed_topic_regex
    if request.subscribed_topic_names is not None:
        names = tuple(sorted(set(request.subscribed_topic_names)))
    if text is None or request.version < request.REGEX_VERSION:
        return Wanted(names, before.pattern)
    if not text:
        return Wanted(names)
    if request.resolved is None:
        return Wanted(names, Pattern(text))
    return Wanted(names, Pattern(text, request.resolved.user), tuple(sorted(set(request.resolved.topics))))


def subscribe(
    turn: Turn[ConsumerGroup], member: ConsumerMember, request: ConsumerGroupHeartbeatRequest
) -> Change:
    """Let the member have the subscription that it asks for."""
    group, subscriptions, number = turn.group, turn.group.subscriptions, member.subscription
    is_new = number < 0
    before = Wanted(()) if is_new else subscriptions.wanted(number)
    wanted = wanted_by(request, subscriptions, number)
    if not is_new and before == wanted._replace(resolved=None):
        return Change()
    is_unheard = wanted.pattern is not None and wanted.pattern not in subscriptions.resolved
    topics_before = () if is_new else subscriptions.names(number)
    group.change_subscription(member, wanted)
    if is_unheard and wanted.pattern is not None and wanted.resolved is not None:
        tell_topics(turn, (), patterns={wanted.pattern: wanted.resolved})
    if before.pattern == wanted.pattern:
        return Change(not is_new, before.names != wanted.names)
    # As in Kafka a pattern that nobody has resolved begins no epoch before somebody has. But a member that
    # loses topics meanwhile gives up partitions, which would be nobody's.
    is_resolved = wanted.pattern is None or subscriptions.resolved[wanted.pattern] is not None
    is_other = before.names != wanted.names or topics_before != subscriptions.names(member.subscription)
    return Change(not is_new, is_resolved or is_other)


def tell_subscription(turn: Turn[ConsumerGroup], member: ConsumerMember) -> None:
    """Tell what a member reads from now on."""
    subscriptions = turn.group.subscriptions
    turn.emit(
        SubscriptionChanged(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            topics=list(subscriptions.names(member.subscription)),
            server_assignor=member.server_assignor,
            subscribed_topic_regex=subscriptions.pattern_text(member.subscription) or msgspec.UNSET,
        )
    )


def take_hints(
    turn: Turn[ConsumerGroup], request: ConsumerGroupHeartbeatRequest, member: ConsumerMember
) -> None:
    """Know what the sender knows of its topics, where the group does not."""
    group = turn.group
    hints = group.topics.hints(request.topics, group.subscriptions.names(member.subscription))
    if hints:
        group.topics.put(hints)
        group.metadata_changed = True
        tell_topics(turn, hints)


def tell_topics(
    turn: Turn[ConsumerGroup],
    topics: Sequence[Topic],
    gone: Sequence[str] = (),
    patterns: Mapping[Pattern, tuple[str, ...]] | None = None,
) -> None:
    """Tell what the group knows from now on of its topics, and what patterns match now."""
    known = turn.group.topics.known(topic.name for topic in topics)
    turn.emit(
        TopicsChanged(
            metadata_version=turn.group.topics.version,
            topics=known,
            gone=list(gone),
            patterns=told_patterns(patterns) if patterns else msgspec.UNSET,
        )
    )
