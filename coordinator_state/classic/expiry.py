"""The rules for a deadline that passes.

Source: GroupMetadataManager.java of Apache Kafka 4 (expireClassicGroupMemberHeartbeat, expirePendingSync).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.classic.rebalance import (
    complete_join,
    extend_initial_delay_or_complete_join,
    maybe_prepare_rebalance,
    prepare_rebalance,
    remove_member,
)
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.group import DeadlineKind

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.deadlines import Deadline
    from group_coordinator.coordinator_state.turn import Turn


def expire(turn: Turn[ClassicGroup], deadline: Deadline) -> None:
    """Apply the rule for `deadline`, which `turn.deadlines` has just given out."""
    match deadline.kind:
        case DeadlineKind.SESSION:
            _expire_session(turn, deadline.member_id)
        case DeadlineKind.PENDING:
            # The id has gone with its deadline.
            _complete_join_if_none_is_missing(turn)
        case DeadlineKind.SYNC:
            _expire_sync(turn)
        case DeadlineKind.JOIN if turn.group.previous_state is GroupState.EMPTY:
            extend_initial_delay_or_complete_join(turn)
        case _:
            complete_join(turn, "the rebalance timeout passed")


def _expire_session(turn: Turn[ClassicGroup], member_id: str) -> None:
    group = turn.group
    member = group.members[member_id]
    if member.is_parked and not member.is_new:
        # It is the coordinator that keeps silent. The session begins again with the answer.
        return
    remove_member(turn, member, "session_expired")
    if group.state is GroupState.PREPARING_REBALANCE:
        _complete_join_if_none_is_missing(turn)
    else:
        maybe_prepare_rebalance(turn, RebalanceCause.SESSION_EXPIRED, f"session of {member_id} expired")


def _complete_join_if_none_is_missing(turn: Turn[ClassicGroup]) -> None:
    # Unlike a join or a leave, an expiry ends the initial delay too, as in Kafka.
    if turn.group.state is GroupState.PREPARING_REBALANCE and turn.group.all_members_joined:
        complete_join(turn, "all remaining members joined")


def _expire_sync(turn: Turn[ClassicGroup]) -> None:
    missing = [member for member in turn.group.members.values() if member.pending_sync]
    for member in missing:
        remove_member(turn, member, "not_synced")
    names = ", ".join(member.member_id for member in missing)
    prepare_rebalance(turn, RebalanceCause.NOT_SYNCED, f"no sync from {names}")
