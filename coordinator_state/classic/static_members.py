"""A static member restarts: the new run replaces the old one, which must not go on (KIP-345).

`join_group.py` decides whether the group rebalances then.
Source: ClassicGroup.replaceStaticMember of Apache Kafka 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.classic.rebalance import (
    refuse_parked_join,
    refuse_parked_sync,
    synced,
)
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import MemberFenced
from group_coordinator.coordinator_state.near_expiry import tell_if_nearly_expired

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.classic.member import Member
    from group_coordinator.coordinator_state.requests import JoinGroupRequest
    from group_coordinator.coordinator_state.turn import Turn


def is_repeat(request: JoinGroupRequest, member: Member) -> bool:
    """Whether `request` is the join that made `member`, once more.

    Either a producer has sent it twice, or the program has restarted and counts its requests from the start
    again. The first must not be fenced by its own request, and the second must be answered. So it is answered
    as any other join of a member, and fences nobody.
    """
    return (request.client_id, request.request_id) == (member.client_id, member.join_request_id)


def take_over(
    turn: Turn[ClassicGroup], request: JoinGroupRequest, member: Member, new_member_id: str
) -> None:
    """Rename `member` to `new_member_id`. Requests that its old run waits for get FENCED_INSTANCE_ID."""
    group, old_member_id = turn.group, member.member_id
    assert member.group_instance_id is not None  # noqa: S101 - a bug of ours if it is
    tell_if_nearly_expired(turn, member, member.session_timeout_ms)
    refuse_parked_join(turn, member, Errors.FENCED_INSTANCE_ID, old_member_id)
    refuse_parked_sync(turn, member, Errors.FENCED_INSTANCE_ID)
    group.replace_static_member(member, new_member_id, request.client_id, request.client_host)
    member.join_request_id = request.request_id
    # Neither is the new run new to the group, nor was it told of a generation that it would have to sync in.
    member.is_new = member.is_behind = False
    synced(turn, member)
    # One more session of the old length: the new one counts from its first sign of life on, as in Kafka.
    turn.restart_session(member.member_id, member.session_timeout_ms)
    turn.emit(
        MemberFenced(
            member_id=old_member_id,
            group_instance_id=member.group_instance_id,
            replaced_by=new_member_id,
            client_id=request.client_id,
            client_host=request.client_host,
            client_reason=request.client_reason,
        )
    )
