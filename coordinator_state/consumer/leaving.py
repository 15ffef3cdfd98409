"""Members of a consumer group go: they leave, for good or for a while, or a deadline passes.

Source: GroupMetadataManager.java of Apache Kafka 4.4 (consumerGroupLeave,
scheduleConsumerGroupSessionTimeout, scheduleConsumerGroupRebalanceTimeout).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.advance import advance_epoch, tell_state
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.membership import Verdict, not_the_owner, unknown
from group_coordinator.coordinator_state.errors import not_found
from group_coordinator.coordinator_state.events import MemberAway, MemberRemoved, RebalanceCause
from group_coordinator.coordinator_state.group import DeadlineKind
from group_coordinator.coordinator_state.requests.consumer import AWAY_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.deadlines import Deadline
    from group_coordinator.coordinator_state.requests.consumer import ConsumerGroupHeartbeatRequest
    from group_coordinator.coordinator_state.turn import Turn


def remove_members(
    turn: Turn[ConsumerGroup],
    members: Iterable[tuple[ConsumerMember, str | None]],
    reason: str,
    cause: RebalanceCause,
) -> None:
    """Remove members, each with the words of its client, and begin one new epoch for all of them.

    `reason`: as `MemberRemoved` has it. Their work is divided with the next heartbeat of another member.
    """
    group = turn.group
    names = []
    for member, client_reason in members:
        group.remove_member(member)
        group.subscriptions.drop(member.subscription)
        names.append(member.member_id)
        turn.emit(
            MemberRemoved(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                reason=reason,
                client_reason=client_reason,
            )
        )
    advance_epoch(turn, cause, f"{', '.join(names)}: {reason}")
    if group.is_empty:
        # Nobody is left whose heartbeat would divide the work.
        group.advance_assignment()
        # The next member to join is alone, and has its work at once.
        group.assigned_at_ms = None
        group.topics.prune((), ())
        if not turn.offsets:
            turn.await_cleanup()


def expire(turn: Turn[ConsumerGroup], deadline: Deadline) -> None:
    """Apply the rule for `deadline`, which `turn.deadlines` has just given out."""
    member = turn.group.members[deadline.member_id]
    if deadline.kind is DeadlineKind.SESSION:
        remove_members(turn, [(member, None)], "session_expired", RebalanceCause.SESSION_EXPIRED)
    elif member.epoch == member.revocation_epoch:
        # Otherwise it left for a while, and what it was to give up is free.
        remove_members(turn, [(member, None)], "not_revoked", RebalanceCause.NOT_REVOKED)


def leave(turn: Turn[ConsumerGroup], request: ConsumerGroupHeartbeatRequest) -> Verdict:
    """Let the member go, for good (epoch -1) or, if it is static, for a while (-2). No epoch is compared."""
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
