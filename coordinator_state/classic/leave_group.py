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
from group_coordinator.coordinator_state.requests.classic import results
from group_coordinator.coordinator_state.turn import GroupT_co, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.requests import LeaveGroupRequest, LeavingMember


def handle_leave_group(
    turn: Turn[GroupT_co],
    request: LeaveGroupRequest,
    rule: Callable[[Turn[GroupT_co], LeaveGroupRequest], list[Errors]],
) -> None:
    """Handle one LeaveGroup. `rule`: the group's, which gives the error of each member."""
    # From this version on a leave names a list of members (KIP-345); before, it is about one.
    is_batch = request.version >= request.STATIC_VERSION
    if not is_batch and len(request.members) != 1:
        message = f"version {request.version} is about one member"
        turn.answer(request, Errors.UNSUPPORTED_VERSION, message)
        return
    errors = rule(turn, request)
    if is_batch:
        turn.answer(request, members=results(request.members, errors))
    else:
        turn.answer(request, errors[0])


def leave(turn: Turn[ClassicGroup], request: LeaveGroupRequest) -> list[Errors]:
    """Remove all members that leave, then rebalance once."""
    errors = [_leave(turn, request, leaving) for leaving in request.members]
    gone = [leaving for leaving, error in zip(request.members, errors, strict=True) if error is Errors.NONE]
    if gone:
        _continue_without(turn, request, gone)
    return errors


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
