"""OffsetFetch: the committed offsets of a group, and since version 8 of several."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

from kafka.protocol.consumer.group import OffsetFetchRequest, OffsetFetchResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state import responses as answers
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Named, Pair, Responses, like
from group_coordinator.gateway.rights import Operation

_BATCH_VERSION = 8
_MEMBER_VERSION = 9
_ERROR_VERSION = 2
"""The version that brought an error of the whole."""


def _requests(message: Any, version: int, about: About) -> list[contract.AnyRequest]:
    requests: list[contract.AnyRequest] = []
    for group in message.groups if version >= _BATCH_VERSION else [message]:
        topics = None
        if group.topics is not None:
            topics = [contract.OffsetFetchTopic(each.name, each.partition_indexes) for each in group.topics]
        requests.append(
            contract.OffsetFetchRequest(
                topics=topics,
                require_stable=message.require_stable,
                member_id=group.member_id if version >= _MEMBER_VERSION else None,
                member_epoch=group.member_epoch if version >= _MEMBER_VERSION else -1,
                **about(group.group_id),
            )
        )
    return requests


def _once(groups: list[Any]) -> list[Any]:
    """Each group once. Of one that is named several times all topics are meant."""
    by_id: dict[str, Any] = {}
    for each in groups:
        first = by_id.get(each.group_id)
        if first is None:
            first = by_id[each.group_id] = copy(each)
            first.topics = None if each.topics is None else list(each.topics)
        elif each.topics is None:
            first.topics = None
        elif first.topics is not None:
            first.topics += each.topics
    return list(by_id.values())


def _response(message: Any, version: int, responses: Responses) -> Any:
    if version < _BATCH_VERSION:
        (response,) = responses
        if response.error_code and version < _ERROR_VERSION:
            response.topics = _refused_topics(message.topics or (), response.error_code)
        return like(response, OffsetFetchResponse, version=version)
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    groups = [
        like(each, group, version=version, group_id=named.group_id)
        for named, each in zip(message.groups, responses, strict=True)
    ]
    return OffsetFetchResponse(version=version, throttle_time_ms=0, groups=groups)


def _refused_topics(topics: Iterable[Any], error_code: int) -> list[answers.FetchedOffsetsOfTopic]:
    """The partitions that were asked for, each with the error, as the coordinator would name them."""
    fetched = answers.FetchedOffset
    return [
        answers.FetchedOffsetsOfTopic(
            topic.name,
            [fetched(partition_index=each, error_code=error_code) for each in topic.partition_indexes],
        )
        for topic in topics
    ]


def _guard(request: Request) -> guarding.Guard:
    message, version = request.message, request.head.api_version
    is_batch = version >= _BATCH_VERSION
    groups = message.groups if is_batch else [message]
    allowed = yield from guarding.allowed_groups(Operation.DESCRIBE, [each.group_id for each in groups])
    readable = [each for each in groups if each.group_id in allowed]
    if not is_batch and not readable:
        return Errors.GROUP_AUTHORIZATION_FAILED
    topics = yield from guarding.allowed_topics(
        Operation.DESCRIBE, [topic.name for each in readable for topic in each.topics or ()]
    )
    asked = [_with_described(each, topics) for each in readable]
    is_all = any(each.topics is None for each in readable)
    if is_batch:
        response = yield guarding.Ask(guarding.with_fields(request, groups=asked), is_last=not is_all)
        answered = response.groups
    else:
        response = yield guarding.Ask(request._replace(message=asked[0]), is_last=not is_all)
        answered = [response]
    pairs = list(zip(answered, readable, strict=True))
    if is_all:
        found = [topic.name for each, group in pairs if group.topics is None for topic in each.topics]
        topics |= yield from guarding.allowed_topics(Operation.DESCRIBE, found)
    for each, group in pairs:
        if not each.error_code:
            denied = [topic for topic in group.topics or () if topic.name not in topics]
            described = [topic for topic in each.topics if topic.name in topics]
            each.topics = [*described, *_refused_topics(denied, guarding.TOPIC_DENIED)]
    if is_batch:
        left, entry = iter(answered), OffsetFetchResponse.OffsetFetchResponseGroup
        response.groups = [
            next(left)
            if each.group_id in allowed
            else entry(version=version, group_id=each.group_id, error_code=guarding.GROUP_DENIED)
            for each in groups
        ]
    return response


def _with_described(group: Any, allowed: set[str]) -> Any:
    if group.topics is None:
        return group
    group = copy(group)
    group.topics = [each for each in group.topics if each.name in allowed]
    return group


API = GroupApi(
    OffsetFetchRequest,
    OffsetFetchResponse,
    # From version 10 on topics are named by their ids, which the coordinator does not know.
    contract.OffsetFetchRequest,
    _guard,
    Pair(_requests, _response),
    named=Named("groups", _BATCH_VERSION, _once),
    results=("groups", "topics", "partitions"),
    # Not 15: Java's client would drop the connection with all that is in flight.
    late=Errors.COORDINATOR_LOAD_IN_PROGRESS,
)
