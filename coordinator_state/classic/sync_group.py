"""SyncGroup: a member asks for its assignment; the leader sends the assignments of all.

Source: GroupMetadataManager.java of Apache Kafka 4, classicGroupSyncToClassicGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.classic.rebalance import answer_sync, propagate_assignment, synced
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.near_expiry import tell_if_nearly_expired

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.requests import SyncGroupRequest
    from group_coordinator.coordinator_state.turn import Turn


def handle_sync_group(turn: Turn[ClassicGroup], request: SyncGroupRequest) -> None:
    """Handle one SyncGroup."""
    error = _check(turn, request)
    if error is not Errors.NONE:
        turn.answer(request, error)
        return

    group = turn.group
    member = group.members[request.member_id]
    tell_if_nearly_expired(turn, member, member.session_timeout_ms)
    synced(turn, member)
    member.is_behind = False
    if group.state is GroupState.STABLE:
        # Its answer may have come late, and its first heartbeat is due a while after it.
        turn.restart_session(member.member_id, member.session_timeout_ms)
        if turn.may_tell(member.lasting_id):
            answer_sync(turn, request.reply_to, member)
        else:
            # It joins again. Kafka's coordinator sends this while it loads a group.
            turn.answer(request, Errors.REBALANCE_IN_PROGRESS)
        return
    # An earlier sync of the same member is forgotten: its sender gave up on it.
    member.awaiting_sync = request.reply_to
    if group.leader == member.member_id:
        propagate_assignment(turn, {each.member_id: each.assignment for each in request.assignments})


def _check(turn: Turn[ClassicGroup], request: SyncGroupRequest) -> Errors:
    if not turn.exists:
        return Errors.UNKNOWN_MEMBER_ID
    group = turn.group
    error = group.validate_member(request.member_id, request.group_instance_id, request.generation_id)
    if error is not Errors.NONE:
        return error
    # In the first join phase of all there is a generation, 0, but no protocol name yet.
    protocol_name = group.protocol_name or request.protocol_name
    protocol = (request.protocol_type, request.protocol_name)
    if request.names_protocol and protocol != (group.protocol_type, protocol_name):
        return Errors.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return Errors.REBALANCE_IN_PROGRESS
    return Errors.NONE
