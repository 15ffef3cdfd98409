"""DescribeGroups: the members and the state of groups."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest, DescribeGroupsResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors, not_found
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Named, Pair, Responses, like
from group_coordinator.gateway.rights import Operation

_GROUP = DescribeGroupsResponse.DescribedGroup
_NOT_FOUND = Errors.GROUP_ID_NOT_FOUND.value


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    return [contract.DescribeGroupRequest(**about(each)) for each in message.groups]


def _response(message: Any, version: int, responses: Responses) -> Any:
    groups = [
        like(
            each,
            _GROUP,
            version=version,
            error_message=not_found(group_id)[1] if each.error_code == _NOT_FOUND else each.error_message,
            group_id=group_id,
            authorized_operations=guarding.operations_if_unguarded(message, each),
        )
        for group_id, each in zip(message.groups, responses, strict=True)
    ]
    return DescribeGroupsResponse(version=version, throttle_time_ms=0, groups=groups)


def _guard(request: Request) -> guarding.Guard:
    message = request.message
    allowed = yield from guarding.allowed_groups(Operation.DESCRIBE, message.groups)
    groups = [each for each in message.groups if each in allowed]
    operations = yield from guarding.operations(message, groups)
    response = yield guarding.Ask(guarding.with_fields(request, groups=groups))
    for each in response.groups:
        if not each.error_code:
            each.authorized_operations = operations.get(each.group_id)
    response.groups = [*guarding.denied(_GROUP, request, message.groups, allowed), *response.groups]
    return response


API = GroupApi(
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    contract.DescribeGroupRequest,
    _guard,
    Pair(_requests, _response),
    named=Named("groups"),
    results=("groups",),
    throttle_since=1,
)
