"""DeleteGroups: a tool deletes groups without members."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.groups import DeleteGroupsRequest, DeleteGroupsResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Named, Pair, Responses
from group_coordinator.gateway.rights import Operation


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    # An id that is given twice is answered once (KafkaApis.handleDeleteGroupsRequest).
    return [contract.DeleteGroupRequest(**about(each)) for each in dict.fromkeys(message.groups_names)]


def _response(message: Any, version: int, responses: Responses) -> Any:
    entry = DeleteGroupsResponse.DeletableGroupResult
    results = [
        entry(version=version, group_id=group_id, error_code=each.error_code)
        for group_id, each in zip(dict.fromkeys(message.groups_names), responses, strict=True)
    ]
    return DeleteGroupsResponse(version=version, throttle_time_ms=0, results=results)


def _guard(request: Request) -> guarding.Guard:
    named = list(dict.fromkeys(request.message.groups_names))
    allowed = yield from guarding.allowed_groups(Operation.DELETE, named)
    response = yield guarding.Ask(
        guarding.with_fields(request, groups_names=[each for each in named if each in allowed])
    )
    response.results += guarding.denied(DeleteGroupsResponse.DeletableGroupResult, request, named, allowed)
    return response


API = GroupApi(
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    contract.DeleteGroupRequest,
    _guard,
    Pair(_requests, _response),
    named=Named("groups_names"),
    results=("results",),
)
