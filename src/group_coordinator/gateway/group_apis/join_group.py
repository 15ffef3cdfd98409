"""JoinGroup: a member joins, or asks for a rebalance."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer.group import JoinGroupRequest, JoinGroupResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Pair, alike

__all__ = ["API"]


def _requests(message: Any, version: int, about: About) -> list[contract.AnyRequest]:
    request = contract.JoinGroupRequest(
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=message.rebalance_timeout_ms if version > 0 else None,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        protocol_type=message.protocol_type,
        protocols=[contract.Protocol(each.name, each.metadata) for each in message.protocols],
        reason=message.reason,
        **about(message.group_id),
    )
    return [request]


def _wait_s(join: contract.JoinGroupRequest, _rebalance_timeout_s: float | None) -> float:
    return max(join.session_timeout_ms, join.effective_rebalance_timeout_ms, 0) / 1000 + 5


API = GroupApi(
    JoinGroupRequest,
    JoinGroupResponse,
    contract.JoinGroupRequest,
    guarding.member,
    # Null for a protocol's name came with version 7, and the stream knows that.
    Pair(_requests, alike(JoinGroupResponse)),
    unread_list="protocols",
    too_large=Errors.GROUP_MAX_SIZE_REACHED,
    begins_group=lambda join: not join.member_id,
    wait_s=_wait_s,
)
