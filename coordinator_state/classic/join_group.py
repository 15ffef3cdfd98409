"""JoinGroup: a program asks to become a member, or a member joins again because a rebalance began.

The checks stand in Kafka's order, because the first that fails is the answer.
Source: GroupMetadataManager.java of Apache Kafka 4, classicGroupJoin and what it calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.classic.member import Member, names_of, stored
from group_coordinator.coordinator_state.classic.rebalance import (
    answer_join,
    maybe_complete_join,
    maybe_prepare_rebalance,
    prepare_rebalance,
    remove_member,
)
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.classic.static_members import is_repeat, take_over
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import MemberAdded, MemberRejoined, RebalanceCause
from group_coordinator.coordinator_state.group import DeadlineKind
from group_coordinator.coordinator_state.near_expiry import tell_if_nearly_expired
from group_coordinator.coordinator_state.responses import JoinGroupResponse

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.requests import JoinGroupRequest
    from group_coordinator.coordinator_state.turn import Turn

# From this version on a new member is first given an id, and joins with it (KIP-394). Otherwise a client that
# never saw the answer to its first join would leave a member behind with each try.
_MEMBER_ID_REQUIRED_VERSION = 4
# From this version on a leader can be told that its group needs no new assignment (KIP-814).
_SKIP_ASSIGNMENT_VERSION = 9
_SOMEBODY = ""
"""In the place of the former leader, which only the first answer can name."""


def handle_join_group(turn: Turn[ClassicGroup], request: JoinGroupRequest, new_member_id: str) -> None:
    """Handle one JoinGroup; `new_member_id` is the id to hand out if it asks for one."""
    config = turn.config
    if not (
        config.group_min_session_timeout_ms
        <= request.session_timeout_ms
        <= config.group_max_session_timeout_ms
    ):
        bounds = f"{config.group_min_session_timeout_ms} and {config.group_max_session_timeout_ms}"
        message = f"session_timeout_ms must be between {bounds}"
        _refuse(turn, request, Errors.INVALID_SESSION_TIMEOUT, message=message)
        return
    if not turn.has(ClassicGroup.KIND):
        if request.member_id:
            _refuse(turn, request, Errors.UNKNOWN_MEMBER_ID)
            return
        if turn.is_closed and not turn.exists:
            message = "there are as many groups as there may be: ask again later"
            _refuse(turn, request, Errors.COORDINATOR_NOT_AVAILABLE, message=message)
            return
        turn.create_group(ClassicGroup.new(turn.group_id, turn.now_ms))

    group = turn.group
    if request.member_id:
        member = group.members.get(request.member_id)
    else:
        member = group.static_member(request.group_instance_id)
    if not _accepts(turn, member):
        _refuse_for_size(turn, request, member)
    elif not group.supports_protocols(request.protocol_type, request.protocols):
        _refuse(turn, request, Errors.INCONSISTENT_GROUP_PROTOCOL)
    elif _new_size(turn, request, member, new_member_id) > config.max_group_bytes:
        message = f"the group's subscriptions would be larger than {config.max_group_bytes} bytes together"
        _refuse(turn, request, Errors.GROUP_MAX_SIZE_REACHED, message=message)
    elif request.member_id:
        _join_with_id(turn, request)
    else:
        _join_without_id(turn, request, member, new_member_id)


def _join_without_id(
    turn: Turn[ClassicGroup], request: JoinGroupRequest, member: Member | None, new_member_id: str
) -> None:
    """A program that has just started. `member` is the one it is already, if its instance id says so."""
    if member is not None and is_repeat(request, member):
        _rejoin(turn, request, member, is_repeat=True)
    elif member is not None:
        _replace_static_member(turn, request, member, new_member_id)
    elif request.group_instance_id is None and request.version >= _MEMBER_ID_REQUIRED_VERSION:
        expires_ms = turn.now_ms + request.session_timeout_ms
        turn.deadlines.set(DeadlineKind.PENDING, expires_ms, new_member_id)
        _refuse(turn, request, Errors.MEMBER_ID_REQUIRED, member_id=new_member_id)
    else:
        _add_member(turn, request, new_member_id)


def _join_with_id(turn: Turn[ClassicGroup], request: JoinGroupRequest) -> None:
    group = turn.group
    if request.member_id not in group.pending_members:
        error = group.validate_member(request.member_id, request.group_instance_id)
        if error is Errors.NONE:
            _rejoin(turn, request, group.members[request.member_id])
        else:
            _refuse(turn, request, error)
    elif request.group_instance_id is None:
        _add_member(turn, request, request.member_id)
    else:
        # Kafka takes this for a fault of its own, hence the code.
        message = "this member id was given to a dynamic member - at `$.group_instance_id`"
        _refuse(turn, request, Errors.UNKNOWN_SERVER_ERROR, member_id="", message=message)


def _rejoin(
    turn: Turn[ClassicGroup], request: JoinGroupRequest, member: Member, *, is_repeat: bool = False
) -> None:
    group = turn.group
    begins: tuple[RebalanceCause, str] | None
    if group.state is GroupState.PREPARING_REBALANCE:
        begins = None
    elif not member.matches(request.protocols):
        begins = RebalanceCause.SUBSCRIPTION_CHANGED, "changed its subscription"
    elif group.state is GroupState.STABLE and group.leader == member.member_id and not is_repeat:
        # A leader joins again when what it divides has changed, which only it can see.
        begins = RebalanceCause.LEADER_REJOINED, "leads and joined again"
    else:
        # It did not get the answer, or it would know.
        _tell_again(turn, request, member)
        return
    tell_if_nearly_expired(turn, member, member.session_timeout_ms)
    _update(turn, request, member)
    _park_again(turn, request, member)
    if begins is None:
        maybe_complete_join(turn)
    else:
        cause, what = begins
        prepare_rebalance(turn, cause, _reason(request, member.member_id, what))


def _replace_static_member(
    turn: Turn[ClassicGroup], request: JoinGroupRequest, member: Member, new_member_id: str
) -> None:
    """The program behind `member` runs anew. It goes on as the same member, under an id of its own.

    In Stable it takes over what it had, and nobody else notices (KIP-345); elsewhere the phase goes on, or,
    as the leader may be working with the old id, begins anew (KAFKA-9801).
    """
    group = turn.group
    old_member_id, old_leader = member.member_id, group.leader
    take_over(turn, request, member, new_member_id)
    is_same_vote = member.protocol_names == names_of(request.protocols)
    _update(turn, request, member)
    if group.state is GroupState.STABLE and (is_same_vote or group.select_protocol() == group.protocol_name):
        _tell_again(turn, request, member, old_leader)
    else:
        _park_again(turn, request, member)
        reason = _reason(request, new_member_id, f"replaced {old_member_id}")
        maybe_prepare_rebalance(turn, RebalanceCause.MEMBER_REPLACED, reason)


def _tell_again(
    turn: Turn[ClassicGroup],
    request: JoinGroupRequest,
    member: Member,
    old_leader: str | None = _SOMEBODY,
) -> None:
    """Send the generation to a member that has been sent it, or that has taken over from one that has.

    The leader's answer has all members. It asks again if that is too much at once. In Stable it must not
    think that it has to divide the work: nobody would ask for that.
    """
    leads = turn.group.leader == member.member_id
    skip_assignment = leads and turn.group.state is GroupState.STABLE
    if skip_assignment and request.version < _SKIP_ASSIGNMENT_VERSION:
        answer_join(turn, request.reply_to, member, leader=old_leader)
    elif leads and not turn.may_tell(member.lasting_id):
        message = "the members of this group were asked for too often at once: join again"
        _refuse(turn, request, Errors.COORDINATOR_NOT_AVAILABLE, message=message)
    else:
        answer_join(turn, request.reply_to, member, skip_assignment=skip_assignment)


def _add_member(turn: Turn[ClassicGroup], request: JoinGroupRequest, member_id: str) -> None:
    group = turn.group
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    member = _member_of(request, member_id)
    group.add_member(member, request.protocol_type)
    group.park_join(member, request.reply_to)
    turn.emit(
        MemberAdded(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            join_phase_ms=group.join_phase_ms,
            client_reason=request.client_reason,
        )
    )
    # It cannot send heartbeats before it is answered, and may have given up waiting. So the parked join has a
    # deadline of its own, and not the session's (KAFKA-7610).
    until_ms = turn.now_ms + turn.config.new_member_join_timeout_ms
    turn.deadlines.set(DeadlineKind.SESSION, until_ms, member_id)
    maybe_prepare_rebalance(turn, RebalanceCause.MEMBER_JOINED, _reason(request, member_id, "joined"))


def _member_of(request: JoinGroupRequest, member_id: str) -> Member:
    return Member(
        member_id=member_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.effective_rebalance_timeout_ms,
        protocols=stored(request.protocols),
        group_instance_id=request.group_instance_id,
        join_request_id=request.request_id if request.group_instance_id is not None else "",
    )


def _park_again(turn: Turn[ClassicGroup], request: JoinGroupRequest, member: Member) -> None:
    if member.awaiting_join is None:
        turn.emit(
            MemberRejoined(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=request.client_id,
                join_phase_ms=turn.group.join_phase_ms,
                client_reason=request.client_reason,
            )
        )
    turn.group.park_join(member, request.reply_to)


def _update(turn: Turn[ClassicGroup], request: JoinGroupRequest, member: Member) -> None:
    timeouts = (request.session_timeout_ms, request.effective_rebalance_timeout_ms)
    if timeouts != (member.session_timeout_ms, member.rebalance_timeout_ms) or not member.matches(
        request.protocols
    ):
        turn.change_picture()
        turn.group.update_protocols(member, request.protocols)
        if request.session_timeout_ms != member.session_timeout_ms:
            # The session that runs has the old length, so what is left of it is no part of the new one.
            until_ms = turn.now_ms + member.session_timeout_ms
            member.untold_until_ms = max(member.untold_until_ms, until_ms)
        member.session_timeout_ms, member.rebalance_timeout_ms = timeouts


def _reason(request: JoinGroupRequest, member_id: str, what: str) -> str:
    reason = f"{member_id} {what}"
    return f"{reason}: {request.client_reason}" if request.client_reason else reason


# -- refusals ------------------------------------------------------------------------------------


def _accepts(turn: Turn[ClassicGroup], member: Member | None) -> bool:
    """Whether group.max.size has room. Ids that are only pending do not count."""
    group = turn.group
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            # Counted by who has joined again, so that a group that is too large shrinks to its limit.
            is_in = member is not None and member.awaiting_join is not None
            return is_in or group.num_awaiting_join < turn.config.group_max_size
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return member is not None or len(group.members) < turn.config.group_max_size
        case _:
            return True


def _refuse_for_size(turn: Turn[ClassicGroup], request: JoinGroupRequest, member: Member | None) -> None:
    if member is not None:
        remove_member(turn, member, "group_full")
    turn.group.pending_members.pop(request.member_id, None)
    message = f"group.max.size is {turn.config.group_max_size}"
    _refuse(turn, request, Errors.GROUP_MAX_SIZE_REACHED, member_id="", message=message)
    # It may have been the last that was waited for.
    maybe_complete_join(turn)


def _new_size(
    turn: Turn[ClassicGroup], request: JoinGroupRequest, member: Member | None, new_member_id: str
) -> int:
    """Bytes of the group's members with the one that wants to join.

    An id that is given out is room that is promised; so who asks for one is counted with all that are out,
    as if they were its like. That also bounds how many can be out.
    """
    size = _member_of(request, request.member_id or new_member_id).size
    promised = 0 if request.member_id else len(turn.group.pending_members) * size
    return turn.group.bytes_held + promised + size - (member.size if member else 0)


def _refuse(
    turn: Turn[ClassicGroup],
    request: JoinGroupRequest,
    error: Errors,
    *,
    member_id: str | None = None,
    message: str | None = None,
) -> None:
    """Answer with an error; the member id is echoed unless another is given."""
    echoed = request.member_id if member_id is None else member_id
    response = JoinGroupResponse.to(request.reply_to, turn.group_id, error, message, member_id=echoed)
    turn.reply(request.reply_to, response, member_id or request.member_id)
