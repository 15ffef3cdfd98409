"""Heartbeat: a member says that it is there."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer.group import HeartbeatRequest, HeartbeatResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Pair, Responses


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    request = contract.HeartbeatRequest(
        generation_id=message.generation_id,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        **about(message.group_id),
    )
    return [request]


def _response(_message: Any, version: int, responses: Responses) -> Any:
    (response,) = responses
    return HeartbeatResponse(version=version, throttle_time_ms=0, error_code=response.error_code)


API = GroupApi(
    HeartbeatRequest,
    HeartbeatResponse,
    contract.HeartbeatRequest,
    guarding.member,
    Pair(_requests, _response),
    # Heartbeats of many clients become one record, and no event tells of them.
    is_principal_told=False,
)
