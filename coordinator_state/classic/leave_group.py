"""LeaveGroup: one or several members leave.

Source: GroupMetadataManager.java of Apache Kafka 4, classicGroupLeaveToClassicGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.classic.rebalance import (
    maybe_complete_join,
    prepare_rebalance,
    remove_member,
)
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.responses import LeaveGroupResponse, MemberResult

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.requests import LeaveGroupRequest, LeavingMember
    from group_coordinator.coordinator_state.turn import Turn

__all__ = ["handle_leave_group"]

# From this version on a leave names a list of members (KIP-345); before, it is about one.
_BATCH_VERSION = 3


def handle_leave_group(turn: Turn[ClassicGroup], request: LeaveGroupRequest) -> None:
    """Handle one LeaveGroup: remove all its members, then rebalance once."""
    is_batch = request.version >= _BATCH_VERSION
    if not is_batch and len(request.members) != 1:
        message = f"version {request.version} is about one member"
        _answer(turn, request, Errors.UNSUPPORTED_VERSION, message=message)
        return

    left = [
        MemberResult(
            member_id=leaving.member_id,
            group_instance_id=leaving.group_instance_id,
            error_code=_leave(turn, request, leaving).value,
        )
        for leaving in request.members
    ]
    gone = [
        leaving
        for leaving, member in zip(request.members, left, strict=True)
        if member.error_code == Errors.NONE
    ]
    if gone:
        _continue_without(turn, request, gone)
    if is_batch:
        _answer(turn, request, Errors.NONE, members=left)
    else:
        _answer(turn, request, Errors(left[0].error_code))


def _leave(turn: Turn[ClassicGroup], request: LeaveGroupRequest, leaving: LeavingMember) -> Errors:
    if not turn.exists:
        return Errors.UNKNOWN_MEMBER_ID
    group = turn.group
    if not leaving.member_id:
        # Somebody else, who knows the program but not its member id, takes it out for good (KIP-345).
        member = group.static_member(leaving.group_instance_id)
        error = Errors.UNKNOWN_MEMBER_ID if member is None else Errors.NONE
    elif leaving.member_id in group.pending_members:
        del group.pending_members[leaving.member_id]
        return Errors.NONE
    else:
        error = group.validate_member(leaving.member_id, leaving.group_instance_id)
        member = group.members.get(leaving.member_id)
    if error is Errors.NONE and member is not None:
        remove_member(turn, member, "left", request.client_reason(leaving))
    return error


def _continue_without(
    turn: Turn[ClassicGroup], request: LeaveGroupRequest, gone: list[LeavingMember]
) -> None:
    # An id that was only pending counts too, and makes a stable group rebalance: Kafka 4 does so.
    match turn.group.state:
        case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
            names = (leaving.member_id or leaving.group_instance_id or "" for leaving in gone)
            reason = f"{', '.join(names)} left"
            told = next(filter(None, map(request.client_reason, gone)), None)
            prepare_rebalance(turn, RebalanceCause.MEMBER_LEFT, f"{reason}: {told}" if told else reason)
        case GroupState.PREPARING_REBALANCE:
            maybe_complete_join(turn)
        case _:
            pass  # a pending id of an Empty group: nobody is waiting for it


def _answer(
    turn: Turn[ClassicGroup],
    request: LeaveGroupRequest,
    error: Errors,
    *,
    message: str | None = None,
    members: list[MemberResult] | None = None,
) -> None:
    response = LeaveGroupResponse.to(request.reply_to, turn.group_id, error, message, members=members or [])
    turn.reply(request.reply_to, response, request.member_named)
