"""A consumer group as tools show it, and as its compacted topic keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.consumer.partitions import unpack
from group_coordinator.coordinator_state.consumer.reconcile import both
from group_coordinator.coordinator_state.consumer_protocol import CONSUMER, subscription_of
from group_coordinator.coordinator_state.responses import GroupPicture, KnownPattern, PicturedMember

if TYPE_CHECKING:
    from collections.abc import Mapping

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.consumer.subscriptions import Pattern, Resolved


def picture_of(group: ConsumerGroup, config: GroupConfig) -> GroupPicture:
    """The picture of a group."""
    numbers = {member.subscription for member in group.members.values()}
    subscriptions = {number: subscription_of(group.subscriptions.names(number)) for number in numbers}
    return GroupPicture(
        group_id=group.group_id,
        state=group.state,
        generation_id=group.generation_id,
        protocol_type=CONSUMER,
        protocol_name=group.assignor,
        leader=None,
        members=[
            PicturedMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=subscriptions[member.subscription],
                member_assignment=group.assignment_bytes(both(member.share)),
                session_timeout_ms=config.group_consumer_session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                member_epoch=member.epoch,
                target_assignment=group.assignment_bytes(unpack(member.target)),
            )
            for member in group.members.values()
        ],
        state_timestamp_ms=group.state_timestamp_ms,
        group_type=group.KIND,
        assignment_epoch=group.assignment_epoch,
        metadata_version=group.topics.version,
        topics=group.topics.known(group.subscriptions.all_names()),
        patterns=told_patterns(group.subscriptions.resolved) or msgspec.UNSET,
    )


def told_patterns(resolved: Mapping[Pattern, Resolved]) -> list[KnownPattern]:
    """Patterns of members as pictures and events have them."""
    return [
        KnownPattern(pattern=each.text, user=each.user, topics=None if topics is None else list(topics))
        for each, topics in resolved.items()
    ]
