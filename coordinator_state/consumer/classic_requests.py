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

from group_coordinator.coordinator_state.consumer.leaving import remove_members
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import RebalanceCause

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.requests import (
        BeatingMember,
        JoinGroupRequest,
        LeaveGroupRequest,
        LeavingMember,
        SyncGroupRequest,
    )
    from group_coordinator.coordinator_state.turn import Turn


def refuse_join(turn: Turn[ConsumerGroup], request: JoinGroupRequest) -> None:
    """Refuse a JoinGroup: the group has members of the consumer protocol."""
    message = "the group has members of the consumer protocol: join it with group.protocol=consumer"
    turn.answer(request, Errors.INCONSISTENT_GROUP_PROTOCOL, message)


def stranger(turn: Turn[ConsumerGroup], sender: SyncGroupRequest | BeatingMember) -> Errors:
    """The error for a SyncGroup or a Heartbeat: it comes from no member of the classic protocol."""
    owner_id = turn.group.static_members.get(sender.group_instance_id or "")
    return Errors.UNKNOWN_MEMBER_ID if owner_id in (None, sender.member_id) else Errors.FENCED_INSTANCE_ID


def leave(turn: Turn[ConsumerGroup], request: LeaveGroupRequest) -> list[Errors]:
    """Remove all members that leave at once, in one new epoch; the error of each."""
    gone: dict[str, tuple[ConsumerMember, str | None]] = {}
    errors = []
    for leaving in request.members:
        error, member = _leaves(turn.group, leaving)
        if member is not None:
            gone.setdefault(member.member_id, (member, request.client_reason(leaving)))
        errors.append(error)
    if gone:
        remove_members(turn, gone.values(), "left", RebalanceCause.MEMBER_LEFT)
    return errors


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
