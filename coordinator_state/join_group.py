"""JoinGroup: a program asks to be a member, or comes back because a rebalance began.

The checks stand in Kafka's order, because the first that fails is the answer.
Source: GroupMetadataManager.java of Apache Kafka 4, classicGroupJoin and what it calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_state.errors import Errors
from coordinator_state.events import MemberAdded
from coordinator_state.group import Member, stored
from coordinator_state.rebalance import (
    answer_join,
    maybe_prepare_rebalance,
    remove_member,
)
from coordinator_state.responses import JoinGroupResponse
from coordinator_state.states import GroupState

if TYPE_CHECKING:
    from coordinator_state.requests import JoinGroupRequest
    from coordinator_state.turn import Turn

__all__ = ["handle_join_group"]

# From this version on a new member is first given an id, and joins with it (KIP-394): a client that never
# saw the answer to its first join would otherwise leave a member behind with each try.
_MEMBER_ID_REQUIRED_VERSION = 4


def handle_join_group(turn: Turn, request: JoinGroupRequest, new_member_id: str) -> None:
    """Handle one JoinGroup; `new_member_id` is the id to give out if it asks for one."""
    config = turn.config
    is_new = not request.member_id
    if not (
        config.group_min_session_timeout_ms
        <= request.session_timeout_ms
        <= config.group_max_session_timeout_ms
    ):
        bounds = f"{config.group_min_session_timeout_ms} and {config.group_max_session_timeout_ms}"
        _refuse(
            turn,
            request,
            Errors.INVALID_SESSION_TIMEOUT,
            message=f"session_timeout_ms must be between {bounds}",
        )
        return
    if not turn.exists:
        if not is_new:
            _refuse(turn, request, Errors.UNKNOWN_MEMBER_ID)
            return
        turn.create_group()

    group = turn.group
    member = group.members.get(request.member_id)
    if not _accepts(turn, member):
        _refuse_for_size(turn, request, member)
    elif not group.supports_protocols(request.protocol_type, request.protocols):
        _refuse(turn, request, Errors.INCONSISTENT_GROUP_PROTOCOL)
    elif _new_size(turn, request, member, new_member_id) > config.max_group_bytes:
        message = f"the group's subscriptions would be larger than {config.max_group_bytes} bytes together"
        _refuse(turn, request, Errors.GROUP_MAX_SIZE_REACHED, message=message)
    elif is_new and request.version >= _MEMBER_ID_REQUIRED_VERSION:
        turn.deadlines.set_pending(new_member_id, turn.now_ms + request.session_timeout_ms)
        _refuse(turn, request, Errors.MEMBER_ID_REQUIRED, member_id=new_member_id)
    elif is_new or request.member_id in group.pending_members:
        _add_member(turn, request, request.member_id or new_member_id)
    elif member is None:
        _refuse(turn, request, Errors.UNKNOWN_MEMBER_ID)
    else:
        _rejoin(turn, request, member)


def _rejoin(turn: Turn, request: JoinGroupRequest, member: Member) -> None:
    group = turn.group
    if group.state is GroupState.PREPARING_REBALANCE:
        _update_member(turn, request, member, "rejoined")
    elif not member.matches(request.protocols):
        _update_member(turn, request, member, "changed its subscription")
    elif group.state is GroupState.STABLE and group.leader == member.member_id:
        # A leader joins again when what it divides has changed, which only it can see.
        _update_member(turn, request, member, "leads and joined again")
    else:
        # It did not get the answer, or it would know: tell it again.
        answer_join(turn, request.reply_to, member)


def _add_member(turn: Turn, request: JoinGroupRequest, member_id: str) -> None:
    group = turn.group
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    member = Member(
        member_id=member_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.effective_rebalance_timeout_ms,
        protocols=stored(request.protocols),
    )
    group.add_member(member, request.protocol_type)
    group.park_join(member, request.reply_to)
    turn.emit(MemberAdded, member_id=member_id, client_id=request.client_id, client_host=request.client_host)
    # It cannot send heartbeats before it is answered, and may have given up waiting: so the parked join
    # is bounded by a time of its own, not by the session (KAFKA-7610).
    turn.deadlines.set_session(member, turn.now_ms + turn.config.new_member_join_timeout_ms)
    maybe_prepare_rebalance(turn, _reason(request, member_id, "joined"))


def _update_member(turn: Turn, request: JoinGroupRequest, member: Member, what: str) -> None:
    group = turn.group
    timeouts = (request.session_timeout_ms, request.effective_rebalance_timeout_ms)
    if timeouts != (member.session_timeout_ms, member.rebalance_timeout_ms) or not member.matches(
        request.protocols
    ):
        turn.is_changed = True
        group.update_protocols(member, request.protocols)
        member.session_timeout_ms, member.rebalance_timeout_ms = timeouts
    group.park_join(member, request.reply_to)
    maybe_prepare_rebalance(turn, _reason(request, member.member_id, what))


def _reason(request: JoinGroupRequest, member_id: str, what: str) -> str:
    reason = f"{member_id} {what}"
    return f"{reason}: {request.reason[:255]}" if request.reason else reason  # KIP-800


# -- refusals ------------------------------------------------------------------------------------


def _accepts(turn: Turn, member: Member | None) -> bool:
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


def _refuse_for_size(turn: Turn, request: JoinGroupRequest, member: Member | None) -> None:
    if member is not None:
        remove_member(turn, member, "group_full")
    turn.group.pending_members.pop(request.member_id, None)
    _refuse(
        turn,
        request,
        Errors.GROUP_MAX_SIZE_REACHED,
        member_id="",
        message=f"group.max.size is {turn.config.group_max_size}",
    )


def _new_size(turn: Turn, request: JoinGroupRequest, member: Member | None, new_member_id: str) -> int:
    joining = Member(
        member_id=request.member_id or new_member_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=0,
        rebalance_timeout_ms=0,
        protocols=stored(request.protocols),
    )
    return turn.group.bytes_held + joining.size - (member.size if member else 0)


def _refuse(
    turn: Turn,
    request: JoinGroupRequest,
    error: Errors,
    *,
    member_id: str | None = None,
    message: str | None = None,
) -> None:
    """Answer with an error; the member id is echoed unless another is given."""
    turn.reply(
        request.reply_to,
        JoinGroupResponse.to(
            request.reply_to,
            turn.group_id,
            error,
            message,
            member_id=request.member_id if member_id is None else member_id,
        ),
    )
