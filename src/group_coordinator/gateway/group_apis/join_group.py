"""JoinGroup: a member joins, or asks for a rebalance."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer.group import JoinGroupRequest, JoinGroupResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Pair, alike, like


def _requests(message: Any, version: int, about: About) -> list[contract.AnyRequest]:
    request = like(
        message,
        contract.JoinGroupRequest,
        rebalance_timeout_ms=message.rebalance_timeout_ms if version > 0 else None,
        protocols=[like(each, contract.Protocol) for each in message.protocols],
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
