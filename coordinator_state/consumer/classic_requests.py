"""Requests of the classic protocol that meet a consumer group.

A group with members does not change its protocol (`group.consumer.migration.policy` is `disabled`). So its
members are not found by the classic protocol's requests, and nobody joins by them. Only LeaveGroup is for
members of every kind, because Kafka's tools remove members by it. An Empty group gives way to a classic one
(`routes.py`).

Source: GroupMetadataManager.java of Apache Kafka 4.4 (throwIfClassicMemberCannotJoinConsumerGroup,
classicGroupLeaveToConsumerGroup).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.consumer.advance import remove_members
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.responses import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    MemberResult,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.requests import (
        HeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        LeavingMember,
        SyncGroupRequest,
    )
    from group_coordinator.coordinator_state.turn import Turn

__all__ = ["refuse_heartbeat", "refuse_join", "refuse_sync", "remove_those_that_leave"]


def refuse_join(turn: Turn[ConsumerGroup], request: JoinGroupRequest) -> None:
    """Refuse a JoinGroup: the group has members of the consumer protocol."""
    message = "the group has members of the consumer protocol: join it with group.protocol=consumer"
    response = JoinGroupResponse.to(
        request.reply_to,
        turn.group_id,
        Errors.INCONSISTENT_GROUP_PROTOCOL,
        message,
    )
    turn.reply(request.reply_to, response, request.member_id)


def refuse_sync(turn: Turn[ConsumerGroup], request: SyncGroupRequest) -> None:
    """Refuse a SyncGroup: it comes from no member of the classic protocol."""
    error = _stranger(turn.group, request.member_id, request.group_instance_id)
    response = SyncGroupResponse.to(request.reply_to, turn.group_id, error)
    turn.reply(request.reply_to, response, request.member_id)


def refuse_heartbeat(turn: Turn[ConsumerGroup], request: HeartbeatRequest) -> None:
    """Refuse a Heartbeat, of one or of several: none is a member of the classic protocol."""
    to = request.reply_to
    errors = [_stranger(turn.group, each.member_id, each.group_instance_id) for each in request.beats]
    if request.members is msgspec.UNSET:
        turn.reply(to, HeartbeatResponse.to(to, turn.group_id, errors[0]), request.member_named)
        return
    members = [
        MemberResult(
            member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error.value
        )
        for each, error in zip(request.members, errors, strict=True)
    ]
    turn.reply(to, HeartbeatResponse.to(to, turn.group_id, members=members))


def _stranger(group: ConsumerGroup, member_id: str, group_instance_id: str | None) -> Errors:
    owner_id = group.static_members.get(group_instance_id or "")
    return Errors.UNKNOWN_MEMBER_ID if owner_id in (None, member_id) else Errors.FENCED_INSTANCE_ID


def remove_those_that_leave(turn: Turn[ConsumerGroup], request: LeaveGroupRequest) -> None:
    """Handle one LeaveGroup: all its members go at once, in one new epoch."""
    to = request.reply_to
    if request.version < request.STATIC_VERSION and len(request.members) != 1:
        message = f"version {request.version} is about one member"
        response = LeaveGroupResponse.to(to, turn.group_id, Errors.UNSUPPORTED_VERSION, message)
        turn.reply(to, response)
        return
    gone: dict[str, tuple[ConsumerMember, str | None]] = {}
    results = []
    for leaving in request.members:
        error, member = _leaves(turn.group, leaving)
        if member is not None:
            gone.setdefault(member.member_id, (member, request.client_reason(leaving)))
        results.append(
            MemberResult(
                member_id=leaving.member_id,
                group_instance_id=leaving.group_instance_id,
                error_code=error.value,
            )
        )
    if gone:
        remove_members(turn, gone.values(), "left", RebalanceCause.MEMBER_LEFT)
    if request.version >= request.STATIC_VERSION:
        response = LeaveGroupResponse.to(to, turn.group_id, members=results)
    else:
        response = LeaveGroupResponse.to(to, turn.group_id, Errors(results[0].error_code))
    turn.reply(to, response, request.member_named)


def _leaves(group: ConsumerGroup, leaving: LeavingMember) -> tuple[Errors, ConsumerMember | None]:
    member_id = leaving.member_id
    if leaving.group_instance_id is not None:
        owner_id = group.static_members.get(leaving.group_instance_id)
        if owner_id is None:
            return Errors.UNKNOWN_MEMBER_ID, None
        if member_id not in ("", owner_id):
            return Errors.FENCED_INSTANCE_ID, None
        member_id = owner_id
    member = group.members.get(member_id)
    return (Errors.UNKNOWN_MEMBER_ID if member is None else Errors.NONE), member
