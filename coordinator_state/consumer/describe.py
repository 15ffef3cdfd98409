"""ConsumerGroupDescribe: how the group looks right now; it changes nothing.

Source: GroupMetadataManager.consumerGroupDescribe and ConsumerGroup.asDescribedGroup of Apache Kafka 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.partitions import unpack
from group_coordinator.coordinator_state.consumer.reconcile import both
from group_coordinator.coordinator_state.errors import not_found
from group_coordinator.coordinator_state.responses import DescribedConsumer

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.requests.consumer import ConsumerGroupDescribeRequest
    from group_coordinator.coordinator_state.turn import Turn


def handle_consumer_group_describe(turn: Turn[ConsumerGroup], request: ConsumerGroupDescribeRequest) -> None:
    """Handle one ConsumerGroupDescribe."""
    if not turn.has(ConsumerGroup.KIND):
        turn.answer(request, *not_found(turn.group_id))
        return
    group = turn.group
    members = [
        DescribedConsumer(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(group.subscriptions.wanted(member.subscription).names),
            subscribed_topic_regex=group.subscriptions.pattern_text(member.subscription),
            assignment=group.topics.told(both(member.share)),
            target_assignment=group.topics.told(unpack(member.target)),
        )
        for member in group.members.values()
    ]
    turn.answer(
        request,
        group_state=group.state,
        group_epoch=group.generation_id,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.index.preferred_assignor(turn.config.consumer_assignors),
        members=members,
    )
