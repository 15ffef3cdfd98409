"""DescribeGroups: the members and the state of groups."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest, DescribeGroupsResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors, not_found
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Named, Pair, Responses
from group_coordinator.gateway.rights import Operation, Resource, Right

__all__ = ["API"]

_ALL_OPERATIONS = {3, 6, 8, 10, 11}
"""The operations on a group where everybody may do everything: READ, DELETE, DESCRIBE and its configs."""
_NOT_FOUND = Errors.GROUP_ID_NOT_FOUND.value


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    return [contract.DescribeGroupRequest(**about(each)) for each in message.groups]


def _response(message: Any, version: int, responses: Responses) -> Any:
    kind = DescribeGroupsResponse.DescribedGroup
    entry = kind.DescribedGroupMember
    groups = [
        kind(
            version=version,
            error_code=each.error_code,
            error_message=not_found(group_id)[1] if each.error_code == _NOT_FOUND else each.error_message,
            group_id=group_id,
            group_state=each.group_state,
            protocol_type=each.protocol_type,
            protocol_data=each.protocol_data,
            members=[
                entry(
                    version=version,
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.member_metadata,
                    member_assignment=member.member_assignment,
                )
                for member in each.members
            ],
            # None is Kafka's smallest int32, which says that nobody has asked. With an error it is the same.
            authorized_operations=(
                _ALL_OPERATIONS if message.include_authorized_operations and not each.error_code else None
            ),
        )
        for group_id, each in zip(message.groups, responses, strict=True)
    ]
    return DescribeGroupsResponse(version=version, throttle_time_ms=0, groups=groups)


def _guard(request: Request) -> guarding.Guard:
    message = request.message
    allowed = yield from guarding.allowed_groups(Operation.DESCRIBE, message.groups)
    groups = [each for each in message.groups if each in allowed]
    if message.include_authorized_operations:
        others = [each for each in Operation if each is not Operation.DESCRIBE]
        granted = yield [Right(operation, Resource.GROUP, each) for each in groups for operation in others]
    response = yield guarding.Ask(guarding.with_fields(request, groups=groups))
    if message.include_authorized_operations:
        of_group: defaultdict[str, set[int]] = defaultdict(lambda: {Operation.DESCRIBE.value})
        for each in granted:
            of_group[each.name].add(each.operation.value)
        for each in response.groups:
            if not each.error_code:
                operations = of_group[each.group_id]
                # Configs of a group cannot be asked for: who may do everything else may see and change them.
                is_all = len(operations) == len(Operation)
                each.authorized_operations = _ALL_OPERATIONS if is_all else operations
    entry, version = DescribeGroupsResponse.DescribedGroup, request.head.api_version
    denied = [
        entry(version=version, group_id=each, error_code=guarding.GROUP_DENIED)
        for each in message.groups
        if each not in allowed
    ]
    response.groups = [*denied, *response.groups]
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
