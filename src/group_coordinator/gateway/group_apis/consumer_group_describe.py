"""ConsumerGroupDescribe: the members, epochs and targets of groups of the consumer protocol."""

from __future__ import annotations

from typing import Any

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Named, Pair, Responses, like
from group_coordinator.gateway.group_apis.topic_ids import assignment
from group_coordinator.gateway.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from group_coordinator.gateway.rights import Operation

_GROUP = ConsumerGroupDescribeResponse.DescribedGroup


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    return [contract.ConsumerGroupDescribeRequest(**about(each)) for each in message.group_ids]


def _response(message: Any, version: int, responses: Responses) -> Any:
    groups = [
        like(
            each,
            _GROUP,
            version=version,
            group_id=group_id,
            members=[_member(version, member) for member in each.members],
            authorized_operations=guarding.operations_if_unguarded(message, each),
        )
        for group_id, each in zip(message.group_ids, responses, strict=True)
    ]
    return ConsumerGroupDescribeResponse(version=version, throttle_time_ms=0, groups=groups)


def _member(version: int, member: Any) -> Any:
    return like(
        member,
        _GROUP.Member,
        version=version,
        instance_id=member.group_instance_id,
        assignment=assignment(member.assignment),
        target_assignment=assignment(member.target_assignment),
    )


def _guard(request: Request) -> guarding.Guard:
    message, version = request.message, request.head.api_version
    allowed = yield from guarding.allowed_groups(Operation.DESCRIBE, message.group_ids)
    groups = [each for each in message.group_ids if each in allowed]
    operations = yield from guarding.operations(message, groups)
    response = yield guarding.Ask(guarding.with_fields(request, group_ids=groups), is_last=False)
    names = {topic for group in response.groups for topic in _topics_of(group)}
    seen = (yield from guarding.allowed_topics(Operation.DESCRIBE, names)) if names else set()
    described = []
    for each in response.groups:
        if not set(_topics_of(each)) <= seen:
            refused = _GROUP(version=version, group_id=each.group_id, error_code=guarding.TOPIC_DENIED)
            described.append(refused)
            continue
        if not each.error_code:
            each.authorized_operations = operations.get(each.group_id)
        described.append(each)
    response.groups = [*guarding.denied(_GROUP, request, message.group_ids, allowed), *described]
    return response


def _topics_of(group: Any) -> list[str]:
    return [
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    ]


API = GroupApi(
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    contract.ConsumerGroupDescribeRequest,
    _guard,
    Pair(_requests, _response),
    named=Named("group_ids"),
    results=("groups",),
)
