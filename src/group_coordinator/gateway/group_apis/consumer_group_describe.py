"""ConsumerGroupDescribe: the members, epochs and targets of groups of the consumer protocol."""

from __future__ import annotations

from typing import Any

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Named, Pair, Responses
from group_coordinator.gateway.group_apis.topic_ids import topic_id_of
from group_coordinator.gateway.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from group_coordinator.gateway.rights import Operation, Resource, Right

__all__ = ["API"]

_GROUP = ConsumerGroupDescribeResponse.DescribedGroup
_MEMBER = _GROUP.Member
_NOT_ASKED = -(2**31)
_CONFIGS = (10, 11)
"""Operations that nobody can be asked about: who may do everything else may see and change the configs."""


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    return [contract.ConsumerGroupDescribeRequest(**about(each)) for each in message.group_ids]


def _response(message: Any, version: int, responses: Responses) -> Any:
    groups = []
    for group_id, each in zip(message.group_ids, responses, strict=True):
        is_asked = message.include_authorized_operations and not each.error_code
        groups.append(
            _GROUP(
                version=version,
                error_code=each.error_code,
                error_message=each.error_message,
                group_id=group_id,
                group_state=each.group_state,
                group_epoch=each.group_epoch,
                assignment_epoch=each.assignment_epoch,
                assignor_name=each.assignor_name,
                members=[_member(version, member) for member in each.members],
                authorized_operations=_bits(_all()) if is_asked else _NOT_ASKED,
            )
        )
    return ConsumerGroupDescribeResponse(version=version, throttle_time_ms=0, groups=groups)


def _member(version: int, member: Any) -> Any:
    return _MEMBER(
        version=version,
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(version, member.assignment),
        target_assignment=_assignment(version, member.target_assignment),
        member_type=member.member_type,
    )


def _assignment(version: int, topics: Any) -> Any:
    kind = _MEMBER.Assignment
    entry = kind.TopicPartitions
    partitions = [
        entry(
            version=version,
            topic_id=topic_id,
            topic_name=each.name,
            partitions=each.partitions,
        )
        for each in topics
        if (topic_id := topic_id_of(each.topic_id)) is not None
    ]
    return kind(version=version, topic_partitions=partitions)


def _all() -> list[int]:
    return [*(each.value for each in Operation), *_CONFIGS]


def _bits(operations: Any) -> int:
    return sum(1 << each for each in operations)


def _guard(request: Request) -> guarding.Guard:
    message, version = request.message, request.head.api_version
    allowed = yield from guarding.allowed_groups(Operation.DESCRIBE, message.group_ids)
    groups = [each for each in message.group_ids if each in allowed]
    granted: Any = frozenset()
    if message.include_authorized_operations:
        others = [each for each in Operation if each is not Operation.DESCRIBE]
        granted = yield [Right(operation, Resource.GROUP, each) for each in groups for operation in others]
    response = yield guarding.Ask(guarding.with_fields(request, group_ids=groups), is_last=False)
    names = {topic for group in response.groups for topic in _topics_of(group)}
    seen = (yield from guarding.allowed_topics(Operation.DESCRIBE, names)) if names else set()
    told = []
    for each in response.groups:
        if not set(_topics_of(each)) <= seen:
            told.append(_refused(version, each.group_id, Errors.TOPIC_AUTHORIZATION_FAILED))
            continue
        if message.include_authorized_operations and not each.error_code:
            operations = {right.operation.value for right in granted if right.name == each.group_id}
            operations.add(Operation.DESCRIBE.value)
            is_all = len(operations) == len(Operation)
            each.authorized_operations = _bits(_all() if is_all else operations)
        told.append(each)
    denied = [
        _refused(version, each, Errors.GROUP_AUTHORIZATION_FAILED)
        for each in message.group_ids
        if each not in allowed
    ]
    response.groups = [*denied, *told]
    return response


def _topics_of(group: Any) -> list[str]:
    return [
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    ]


def _refused(version: int, group_id: str, error: Errors) -> Any:
    return _GROUP(
        version=version,
        error_code=error.value,
        error_message=None,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
        authorized_operations=_NOT_ASKED,
    )


API = GroupApi(
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    contract.ConsumerGroupDescribeRequest,
    _guard,
    Pair(_requests, _response),
    named=Named("group_ids"),
    results=("groups",),
)
