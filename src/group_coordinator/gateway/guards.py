"""The rights that each local request needs. A denied part of it is answered as by a broker.

A guard is a generator. It says which rights it has to know and is sent those that the client has. It says
which request is to be answered and is sent the response. It returns the response that the client gets:

    granted = yield {right, ...}
    response = yield Ask(request)
    return response

A request of many groups is answered in turns, some groups at a time, and each group once. So it becomes few
records at a time for the coordinator, and few questions to the broker.

Source: kafka.server.KafkaApis of Apache Kafka 4.2, which rights it asks for and where it puts a denied part:
in front of the rest, behind it, or at its place.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kafka.protocol.admin.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
)
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.encoded import EncodedList, entries_of
from group_coordinator.gateway.rights import CLUSTER, Operation, Resource, Right
from group_coordinator.gateway.translation import (
    ALL_OPERATIONS,
    Sender,
    fetched_topics,
    refusal,
    refused_topics,
    to_contract,
    to_kafka,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.codec import Request

__all__ = ["AT_ONCE", "MOST_ANSWERED", "Ask", "Guard", "guard", "right_of_member", "unguarded"]


class Ask(NamedTuple):
    """A request that may be answered. `is_last`: no rights are needed for its response."""

    request: Request
    is_last: bool = True


Guard: TypeAlias = Generator[Iterable[Right] | Ask, Any, Any]

_TOPIC_DENIED = Errors.TOPIC_AUTHORIZATION_FAILED.value
_GROUP_DENIED = Errors.GROUP_AUTHORIZATION_FAILED.value
_AWAY = {Errors.COORDINATOR_LOAD_IN_PROGRESS.value, Errors.COORDINATOR_NOT_AVAILABLE.value}
"""With one of these for all groups of a turn the coordinator is not asked for those of the next ones."""
AT_ONCE = 200
"""Groups of one request that are asked about at a time."""
MOST_ANSWERED = 32 * 1024 * 1024
"""Bytes of one answer. The client is to ask again for the groups behind that."""
_BATCH_FIND_VERSION = 4
_BATCH_FETCH_VERSION = 8
_NAMED_SYNC_VERSION = 5
_NOBODY = Sender("", "", 0, str)


def guard(request: Request, prefix: str = "") -> Guard:
    """The guard of a local request. `prefix`: stands before the ids of groups in all that brokers know."""
    exchange = _in_turns(request, _GUARDS[request.head.api_key])
    return _prefixed(exchange, prefix) if prefix else exchange


def unguarded(request: Request) -> Guard:
    """The same where no rights are asked."""
    return _in_turns(request, _ask)


def right_of_member(group_id: str, prefix: str = "") -> Right:
    """The right that a member of the group needs for what it asks."""
    return _group(Operation.READ, prefix + group_id)


def _prefixed(exchange: Guard, prefix: str) -> Guard:
    """The same guard, whose rights are on the groups as the coordinator knows them."""
    told: Any = None
    while True:
        try:
            wanted = exchange.send(told)
        except StopIteration as end:
            return end.value
        if isinstance(wanted, Ask):
            told = yield wanted
            continue
        named = {
            each._replace(name=prefix + each.name) if each.resource is Resource.GROUP else each: each
            for each in wanted
        }
        granted = yield named
        told = frozenset(each for asked, each in named.items() if asked in granted)


def _group(operation: Operation, group_id: str) -> Right:
    return Right(operation, Resource.GROUP, group_id)


def _topic(operation: Operation, topic: str) -> Right:
    return Right(operation, Resource.TOPIC, topic)


def _with(request: Request, **changed: Any) -> Request:
    message = copy(request.message)
    for name, value in changed.items():
        setattr(message, name, value)
    return request._replace(message=message)


def _denied(request: Request, error: Errors = Errors.GROUP_AUTHORIZATION_FAILED) -> Any:
    """The response if the client may do nothing of it."""
    return to_kafka(request, [refusal(each, error) for each in to_contract(request, _NOBODY)])


def _granted(rights: Sequence[Right]) -> Guard:
    """Those of the rights that the client has, which are asked for in turns."""
    granted: frozenset[Right] = frozenset()
    for start in range(0, len(rights), AT_ONCE):
        granted |= yield rights[start : start + AT_ONCE]
    return granted


# -- many groups ---------------------------------------------------------------------------------------


class _Many(NamedTuple):
    """An API whose requests name groups: their fields with these and with the results, and since when.

    `is_asked`: whether the coordinator answers them.
    """

    named: str
    results: str
    since: int = 0
    is_asked: bool = True


_MANY = {
    OffsetFetchRequest.API_KEY: _Many("groups", "groups", _BATCH_FETCH_VERSION),
    DescribeGroupsRequest.API_KEY: _Many("groups", "groups"),
    DeleteGroupsRequest.API_KEY: _Many("groups_names", "results"),
    FindCoordinatorRequest.API_KEY: _Many(
        "coordinator_keys", "coordinators", _BATCH_FIND_VERSION, is_asked=False
    ),
}


def _ask(request: Request) -> Guard:
    return (yield Ask(request))


def _in_turns(request: Request, exchange: Callable[[Request], Guard]) -> Guard:
    """Run `exchange` for some groups at a time, and put its responses together."""
    api_key, version = request.head.api_key, request.head.api_version
    many = _MANY.get(api_key)
    if many is None or version < many.since:
        return (yield from exchange(request))
    groups = _once(getattr(request.message, many.named))
    turns = [
        _with(request, **{many.named: groups[start : start + AT_ONCE]})
        for start in range(0, len(groups), AT_ONCE)
    ]
    if len(turns) <= 1:
        return (yield from exchange(_with(request, **{many.named: groups})))
    count, entries, error = 0, [], None
    for turn in turns:
        response = _denied(turn, error) if error else (yield from _held(exchange(turn)))
        added, encoded = entries_of(response)
        count += added
        entries.append(encoded)
        codes = {each.error_code for each in getattr(response, many.results)}
        if many.is_asked and codes <= _AWAY:
            error = Errors(max(codes))
        elif sum(map(len, entries)) > MOST_ANSWERED:
            error = Errors.COORDINATOR_LOAD_IN_PROGRESS
    return EncodedList(api_key, version, count, entries)


def _once(groups: list[Any]) -> list[Any]:
    """Each group once. Of one that is named several times in an OffsetFetch all topics are meant."""
    if not groups or isinstance(groups[0], str):
        return list(dict.fromkeys(groups))
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


def _held(exchange: Guard) -> Guard:
    """The exchange, after whose requests something else may be asked."""
    told = None
    while True:
        try:
            wanted = exchange.send(told)
        except StopIteration as end:
            return end.value
        told = yield wanted._replace(is_last=False) if isinstance(wanted, Ask) else wanted


# -- members -------------------------------------------------------------------------------------------


def _member(request: Request) -> Guard:
    needed = right_of_member(request.message.group_id)
    if needed not in (yield [needed]):
        return _denied(request)
    return (yield Ask(request))


def _sync(request: Request) -> Guard:
    message = request.message
    if request.head.api_version >= _NAMED_SYNC_VERSION and None in (
        message.protocol_type,
        message.protocol_name,
    ):
        # Whichever rights the client has.
        return _denied(request, Errors.INCONSISTENT_GROUP_PROTOCOL)
    return (yield from _member(request))


# -- offsets -------------------------------------------------------------------------------------------


def _commit(request: Request) -> Guard:
    kind = OffsetCommitResponse.OffsetCommitResponseTopic
    entry = kind.OffsetCommitResponsePartition
    return _offsets_changed(request, Operation.READ, kind, entry)


def _delete_offsets(request: Request) -> Guard:
    kind = OffsetDeleteResponse.OffsetDeleteResponseTopic
    entry = kind.OffsetDeleteResponsePartition
    return _offsets_changed(request, Operation.DELETE, kind, entry)


def _offsets_changed(request: Request, operation: Operation, kind: Any, entry: Any) -> Guard:
    message, version = request.message, request.head.api_version
    needed = _group(operation, message.group_id)
    if needed not in (yield [needed]):
        return _denied(request)
    granted = yield [_topic(Operation.READ, each.name) for each in message.topics]
    allowed = [each for each in message.topics if _topic(Operation.READ, each.name) in granted]
    if len(allowed) == len(message.topics):
        return (yield Ask(request))
    denied = [
        kind(
            version=version,
            name=topic.name,
            partitions=[
                entry(version=version, partition_index=each.partition_index, error_code=_TOPIC_DENIED)
                for each in topic.partitions
            ],
        )
        for topic in message.topics
        if _topic(Operation.READ, topic.name) not in granted
    ]
    # Where nothing is left the coordinator is not asked, so that the member may be anybody.
    response = (yield Ask(_with(request, topics=allowed))) if allowed else _unasked(request)
    if not getattr(response, "error_code", 0):
        response.topics = [*denied, *response.topics]
    return response


def _unasked(request: Request) -> Any:
    kind = (
        OffsetCommitResponse if request.head.api_key == OffsetCommitRequest.API_KEY else OffsetDeleteResponse
    )
    return kind(version=request.head.api_version, throttle_time_ms=0, topics=[])


def _fetch(request: Request) -> Guard:
    message, version = request.message, request.head.api_version
    is_batch = version >= _BATCH_FETCH_VERSION
    groups = message.groups if is_batch else [message]
    granted = yield [_group(Operation.DESCRIBE, each.group_id) for each in groups]
    readable = [each for each in groups if _group(Operation.DESCRIBE, each.group_id) in granted]
    if not is_batch and not readable:
        return _denied(request)
    granted |= yield [
        _topic(Operation.DESCRIBE, topic.name) for each in readable for topic in each.topics or ()
    ]
    asked = [_with_described(each, granted) for each in readable]
    is_all = any(each.topics is None for each in readable)
    if is_batch:
        response = yield Ask(_with(request, groups=asked), is_last=not is_all)
        answered = response.groups
    else:
        response = yield Ask(request._replace(message=asked[0]), is_last=not is_all)
        answered = [response]
    if is_all:
        found = [
            _topic(Operation.DESCRIBE, topic.name)
            for each, group in zip(answered, readable, strict=True)
            if group.topics is None
            for topic in each.topics
        ]
        granted |= yield found
    for each, group in zip(answered, readable, strict=True):
        if not each.error_code:
            told = [it for it in each.topics if _topic(Operation.DESCRIBE, it.name) in granted]
            each.topics = [*told, *_undescribed(group, granted, version)]
    if is_batch:
        left = iter(answered)
        response.groups = [
            next(left)
            if _group(Operation.DESCRIBE, each.group_id) in granted
            else OffsetFetchResponse.OffsetFetchResponseGroup(
                version=version, group_id=each.group_id, error_code=_GROUP_DENIED
            )
            for each in groups
        ]
    return response


def _with_described(group: Any, granted: frozenset[Right]) -> Any:
    if group.topics is None:
        return group
    group = copy(group)
    group.topics = [each for each in group.topics if _topic(Operation.DESCRIBE, each.name) in granted]
    return group


def _undescribed(group: Any, granted: frozenset[Right], version: int) -> list[Any]:
    """The topics that were asked for and must not be described."""
    denied = [each for each in group.topics or () if _topic(Operation.DESCRIBE, each.name) not in granted]
    return fetched_topics(version, refused_topics(denied, _TOPIC_DENIED))


# -- groups --------------------------------------------------------------------------------------------


def _find(request: Request) -> Guard:
    message, version = request.message, request.head.api_version
    keys = message.coordinator_keys if version >= _BATCH_FIND_VERSION else [message.key]
    granted = yield [_group(Operation.DESCRIBE, each) for each in keys]
    allowed = [each for each in keys if _group(Operation.DESCRIBE, each) in granted]
    nowhere = {"node_id": -1, "host": "", "port": -1, "error_code": _GROUP_DENIED}
    if version < _BATCH_FIND_VERSION:
        if allowed:
            return (yield Ask(request))
        text = "Group authorization failed."
        return FindCoordinatorResponse(version=version, throttle_time_ms=0, error_message=text, **nowhere)
    response = yield Ask(_with(request, coordinator_keys=allowed))
    left, entry = iter(response.coordinators), FindCoordinatorResponse.Coordinator
    response.coordinators = [
        next(left)
        if _group(Operation.DESCRIBE, each) in granted
        else entry(version=version, key=each, **nowhere)
        for each in keys
    ]
    return response


def _list(request: Request) -> Guard:
    is_all = CLUSTER in (yield [CLUSTER])
    response = yield Ask(request, is_last=is_all)
    if is_all:
        return response
    granted = yield from _granted([_group(Operation.DESCRIBE, each) for each in response.names])
    return response.only({each.name for each in granted})


def _describe(request: Request) -> Guard:
    message = request.message
    granted = yield [_group(Operation.DESCRIBE, each) for each in message.groups]
    allowed = [each for each in message.groups if _group(Operation.DESCRIBE, each) in granted]
    if message.include_authorized_operations:
        others = [each for each in Operation if each is not Operation.DESCRIBE]
        granted |= yield [_group(operation, each) for each in allowed for operation in others]
    response = yield Ask(_with(request, groups=allowed))
    if message.include_authorized_operations:
        for each in response.groups:
            if not each.error_code:
                of_group = {it.value for it in Operation if _group(it, each.group_id) in granted}
                # Configs of a group cannot be asked for: who may do everything else may see and change them.
                each.authorized_operations = ALL_OPERATIONS if len(of_group) == len(Operation) else of_group
    entry, version = DescribeGroupsResponse.DescribedGroup, request.head.api_version
    denied = [
        entry(version=version, group_id=each, error_code=_GROUP_DENIED)
        for each in message.groups
        if _group(Operation.DESCRIBE, each) not in granted
    ]
    response.groups = [*denied, *response.groups]
    return response


def _delete(request: Request) -> Guard:
    named = list(dict.fromkeys(request.message.groups_names))
    granted = yield [_group(Operation.DELETE, each) for each in named]
    allowed = [each for each in named if _group(Operation.DELETE, each) in granted]
    response = yield Ask(_with(request, groups_names=allowed))
    entry, version = DeleteGroupsResponse.DeletableGroupResult, request.head.api_version
    response.results = [
        *response.results,
        *(
            entry(version=version, group_id=each, error_code=_GROUP_DENIED)
            for each in named
            if _group(Operation.DELETE, each) not in granted
        ),
    ]
    return response


_GUARDS: dict[int, Callable[[Request], Guard]] = {
    JoinGroupRequest.API_KEY: _member,
    SyncGroupRequest.API_KEY: _sync,
    HeartbeatRequest.API_KEY: _member,
    LeaveGroupRequest.API_KEY: _member,
    OffsetCommitRequest.API_KEY: _commit,
    OffsetFetchRequest.API_KEY: _fetch,
    OffsetDeleteRequest.API_KEY: _delete_offsets,
    FindCoordinatorRequest.API_KEY: _find,
    ListGroupsRequest.API_KEY: _list,
    DescribeGroupsRequest.API_KEY: _describe,
    DeleteGroupsRequest.API_KEY: _delete,
}
