"""A member of a consumer group leaves, for good (epoch -1) or, if it is static, for a while (-2).

Source: GroupMetadataManager.consumerGroupLeave of Apache Kafka 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.advance import remove_members, tell_state
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.membership import Verdict, not_the_owner, unknown
from group_coordinator.coordinator_state.errors import not_found
from group_coordinator.coordinator_state.events import MemberAway, RebalanceCause
from group_coordinator.coordinator_state.requests.consumer import AWAY_EPOCH

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.requests.consumer import ConsumerGroupHeartbeatRequest
    from group_coordinator.coordinator_state.turn import Turn

__all__ = ["leave"]


def leave(turn: Turn[ConsumerGroup], request: ConsumerGroupHeartbeatRequest) -> Verdict:
    """Let the member go, for good or for a while. Its epoch is not compared."""
    if not turn.has(ConsumerGroup.KIND):
        return Verdict(*not_found(turn.group_id))
    group = turn.group
    instance_id = request.group_instance_id
    if instance_id is not None:
        owner_id = group.static_members.get(instance_id)
        if owner_id != request.member_id:
            return not_the_owner(instance_id, owner_id)
    member = group.members.get(request.member_id)
    if member is None:
        return unknown(f"member {request.member_id}")
    if request.epoch == AWAY_EPOCH:
        _go_away(turn, member)
    else:
        remove_members(turn, [(member, None)], "left", RebalanceCause.MEMBER_LEFT)
    return Verdict(member_id=request.member_id, epoch=request.epoch)


def _go_away(turn: Turn[ConsumerGroup], member: ConsumerMember) -> None:
    """A static member may come back until its session ends. What it was to give up is free at once."""
    group = turn.group
    group.change_member(member, member.share._replace(epoch=AWAY_EPOCH, pending={}))
    turn.emit(
        MemberAway(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id or "",
            client_id=member.client_id,
        )
    )
    tell_state(turn, f"{member.member_id} left for a while", RebalanceCause.MEMBER_LEFT)
