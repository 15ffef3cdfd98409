"""FindCoordinator of groups: the gateway itself says at which broker's address a group is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import GroupApi, Named
from group_coordinator.gateway.rights import Operation

NOWHERE = {"node_id": -1, "host": "", "port": -1}
"""The fields of a coordinator that is not found."""
_BATCH_VERSION = 4
_TEXTS = {
    Errors.NONE.value: "NONE",
    Errors.INVALID_GROUP_ID.value: "The configured groupId is invalid.",
    Errors.COORDINATOR_NOT_AVAILABLE.value: "The coordinator is not available.",
}
"""Kafka's texts (org.apache.kafka.common.protocol.Errors) for what is answered."""


def found(request: Request, coordinator: Callable[[str], dict[str, Any]]) -> Any:
    """Kafka's response. `coordinator`: the error and the place of a group, as fields of Kafka's."""
    version, message = request.head.api_version, request.message
    if version < _BATCH_VERSION:
        of_group = coordinator(message.key)
        # As Kafka does, which has a text for no error, and none for any in later versions.
        text = _TEXTS[of_group["error_code"]]
        return FindCoordinatorResponse(version=version, throttle_time_ms=0, error_message=text, **of_group)
    entry = FindCoordinatorResponse.Coordinator
    coordinators = [
        entry(version=version, key=key, error_message="", **coordinator(key))
        for key in message.coordinator_keys
    ]
    return FindCoordinatorResponse(version=version, throttle_time_ms=0, coordinators=coordinators)


def _guard(request: Request) -> guarding.Guard:
    message, version = request.message, request.head.api_version
    keys = message.coordinator_keys if version >= _BATCH_VERSION else [message.key]
    allowed = yield from guarding.allowed_groups(Operation.DESCRIBE, keys)
    nowhere = {**NOWHERE, "error_code": guarding.GROUP_DENIED}
    if version < _BATCH_VERSION:
        if allowed:
            return (yield guarding.Ask(request))
        text = "Group authorization failed."
        return FindCoordinatorResponse(version=version, throttle_time_ms=0, error_message=text, **nowhere)
    response = yield guarding.Ask(
        guarding.with_fields(request, coordinator_keys=[each for each in keys if each in allowed])
    )
    left, entry = iter(response.coordinators), FindCoordinatorResponse.Coordinator
    response.coordinators = [
        next(left) if each in allowed else entry(version=version, key=each, **nowhere) for each in keys
    ]
    return response


API = GroupApi(
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    contract.FindCoordinatorRequest,
    _guard,
    named=Named("coordinator_keys", _BATCH_VERSION),
    results=("coordinators",),
)
