"""Between Kafka's messages and those of the contract: a pair of functions for each API of groups.

A request of Kafka's may be about several groups, and a record of the log is about one. So a request becomes a
list of contract requests, and their responses, in the same order, become Kafka's response:

    requests = to_contract(request, sender)
    response = to_kafka(request, responses)

Field names are the same on both sides but for a few. A field that a version lacks has its default when it is
read, and is not written.

Source: the message definitions of Apache Kafka 4.2; `docs/contract.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.protocol.admin.groups import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
)
from kafka.protocol.consumer.group import (
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from msgspec import UNSET

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state import responses as answers
from group_coordinator.coordinator_state.errors import Errors, not_found
from group_coordinator.gateway.codec import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from group_coordinator.gateway.frames import RequestHead

    _About: TypeAlias = Callable[[str], dict[str, Any]]

__all__ = [
    "ALL_OPERATIONS",
    "Sender",
    "fetched_topics",
    "may_refuse_unread",
    "refusal",
    "refused_topics",
    "refused_unread",
    "to_contract",
    "to_kafka",
]

ALL_OPERATIONS = {3, 6, 8, 10, 11}
"""The operations on a group where everybody may do everything: READ, DELETE, DESCRIBE and its configs."""
_NOT_FOUND = Errors.GROUP_ID_NOT_FOUND.value
_BATCH_LEAVE_VERSION = 3
_BATCH_FETCH_VERSION = 8
_FETCH_ERROR_VERSION = 2
"""The version of OffsetFetch that brought an error of the whole."""


class Sender(NamedTuple):
    """The fields that all contract requests of one client have in common."""

    client_id: str
    client_host: str
    reply_partition: int
    next_request_id: Callable[[], str]
    group_prefix: str = ""
    """A text before the ids of groups in the log. Kafka's responses name groups as their requests do."""
    principal: str | None = None
    """The name that the broker has accepted; None if it is not known."""


def to_contract(request: Request, sender: Sender) -> list[contract.AnyRequest]:
    """The contract requests for one of Kafka's, a record each; none if it names no group."""
    version = request.head.api_version
    # No heartbeat has it: those of many clients become one record, and no event tells of them.
    is_told = sender.principal is not None and request.head.api_key != HeartbeatResponse.API_KEY

    def about(group_id: str) -> dict[str, Any]:
        return {
            "request_id": sender.next_request_id(),
            "client_id": sender.client_id,
            "client_host": sender.client_host,
            "reply_partition": sender.reply_partition,
            "group_id": sender.group_prefix + group_id,
            "api_version": version,
            "principal": sender.principal if is_told else UNSET,
        }

    return _PAIRS[request.head.api_key].requests(request.message, version, about)


def to_kafka(request: Request, responses: Sequence[Any]) -> Any:
    """Kafka's response to `request`, of the contract's responses to what `to_contract` made of it."""
    return _PAIRS[request.head.api_key].response(request.message, request.head.api_version, responses)


# -- requests ------------------------------------------------------------------------------------------


def _join(message: Any, version: int, about: _About) -> list[contract.AnyRequest]:
    request = contract.JoinGroupRequest(
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=message.rebalance_timeout_ms if version > 0 else None,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        protocol_type=message.protocol_type,
        protocols=[contract.Protocol(each.name, each.metadata) for each in message.protocols],
        reason=message.reason,
        **about(message.group_id),
    )
    return [request]


def _sync(message: Any, _version: int, about: _About) -> list[contract.AnyRequest]:
    request = contract.SyncGroupRequest(
        generation_id=message.generation_id,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignments=[
            contract.MemberAssignment(each.member_id, each.assignment) for each in message.assignments
        ],
        **about(message.group_id),
    )
    return [request]


def _beat(message: Any, _version: int, about: _About) -> list[contract.AnyRequest]:
    request = contract.HeartbeatRequest(
        generation_id=message.generation_id,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        **about(message.group_id),
    )
    return [request]


def _leave(message: Any, version: int, about: _About) -> list[contract.AnyRequest]:
    if version < _BATCH_LEAVE_VERSION:
        members = [contract.LeavingMember(member_id=message.member_id)]
    else:
        members = [
            contract.LeavingMember(
                member_id=each.member_id, group_instance_id=each.group_instance_id, reason=each.reason
            )
            for each in message.members
        ]
    return [contract.LeaveGroupRequest(members=members, **about(message.group_id))]


def _commit(message: Any, _version: int, about: _About) -> list[contract.AnyRequest]:
    topics = [
        contract.OffsetCommitTopic(
            topic.name,
            [
                contract.OffsetCommitPartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    committed_metadata=each.committed_metadata,
                )
                for each in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    request = contract.OffsetCommitRequest(
        generation_id=message.generation_id_or_member_epoch,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        retention_time_ms=message.retention_time_ms,
        topics=topics,
        **about(message.group_id),
    )
    return [request]


def _fetch(message: Any, version: int, about: _About) -> list[contract.AnyRequest]:
    requests: list[contract.AnyRequest] = []
    for group in message.groups if version >= _BATCH_FETCH_VERSION else [message]:
        topics = None
        if group.topics is not None:
            topics = [contract.OffsetFetchTopic(each.name, each.partition_indexes) for each in group.topics]
        requests.append(
            contract.OffsetFetchRequest(
                topics=topics, require_stable=message.require_stable, **about(group.group_id)
            )
        )
    return requests


def _delete_offsets(message: Any, _version: int, about: _About) -> list[contract.AnyRequest]:
    topics = [
        contract.OffsetDeleteTopic(
            topic.name,
            [
                contract.OffsetDeletePartition(partition_index=each.partition_index)
                for each in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return [contract.OffsetDeleteRequest(topics=topics, **about(message.group_id))]


def _describe(message: Any, _version: int, about: _About) -> list[contract.AnyRequest]:
    return [contract.DescribeGroupRequest(**about(each)) for each in message.groups]


def _delete(message: Any, _version: int, about: _About) -> list[contract.AnyRequest]:
    # An id that is given twice is answered once (KafkaApis.handleDeleteGroupsRequest).
    return [contract.DeleteGroupRequest(**about(each)) for each in dict.fromkeys(message.groups_names)]


# -- responses -----------------------------------------------------------------------------------------


def _joined(_message: Any, version: int, responses: Sequence[Any]) -> Any:
    (response,) = responses
    entry = JoinGroupResponse.JoinGroupResponseMember
    return JoinGroupResponse(
        version=version,
        throttle_time_ms=0,
        error_code=response.error_code,
        generation_id=response.generation_id,
        protocol_type=response.protocol_type,
        # Null came with version 7, and the stream knows that.
        protocol_name=response.protocol_name,
        leader=response.leader,
        skip_assignment=response.skip_assignment,
        member_id=response.member_id,
        members=[
            entry(
                version=version,
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                metadata=each.metadata,
            )
            for each in response.members
        ],
    )


def _synced(_message: Any, version: int, responses: Sequence[Any]) -> Any:
    (response,) = responses
    return SyncGroupResponse(
        version=version,
        throttle_time_ms=0,
        error_code=response.error_code,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol_name,
        assignment=response.assignment,
    )


def _beaten(_message: Any, version: int, responses: Sequence[Any]) -> Any:
    (response,) = responses
    return HeartbeatResponse(version=version, throttle_time_ms=0, error_code=response.error_code)


def _left(_message: Any, version: int, responses: Sequence[Any]) -> Any:
    (response,) = responses
    error_code = response.error_code
    if version < _BATCH_LEAVE_VERSION:
        return LeaveGroupResponse(version=version, throttle_time_ms=0, error_code=error_code)
    entry = LeaveGroupResponse.MemberResponse
    members = [
        entry(
            version=version,
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=each.error_code,
        )
        for each in response.members
    ]
    return LeaveGroupResponse(version=version, throttle_time_ms=0, error_code=error_code, members=members)


def _committed(_message: Any, version: int, responses: Sequence[Any]) -> Any:
    (response,) = responses
    kind = OffsetCommitResponse.OffsetCommitResponseTopic
    topics = _results(version, kind, kind.OffsetCommitResponsePartition, response.topics)
    return OffsetCommitResponse(version=version, throttle_time_ms=0, topics=topics)


def _results(version: int, kind: Any, entry: Any, topics: Iterable[answers.TopicResult]) -> list[Any]:
    return [
        kind(
            version=version,
            name=topic.name,
            partitions=[
                entry(version=version, partition_index=each.partition_index, error_code=each.error_code)
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]


def _fetched(message: Any, version: int, responses: Sequence[Any]) -> Any:
    if version < _BATCH_FETCH_VERSION:
        (response,) = responses
        told = response.topics
        if response.error_code and version < _FETCH_ERROR_VERSION:
            told = refused_topics(message.topics or (), response.error_code)
        topics = fetched_topics(version, told)
        return OffsetFetchResponse(
            version=version, throttle_time_ms=0, topics=topics, error_code=response.error_code
        )
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    groups = [
        group(
            version=version,
            group_id=named.group_id,
            topics=fetched_topics(version, each.topics),
            error_code=each.error_code,
        )
        for named, each in zip(message.groups, responses, strict=True)
    ]
    return OffsetFetchResponse(version=version, throttle_time_ms=0, groups=groups)


def fetched_topics(version: int, topics: Iterable[answers.FetchedOffsetsOfTopic]) -> list[Any]:
    """The topics of an OffsetFetch as Kafka's response has them in this version."""
    kind: Any
    if version >= _BATCH_FETCH_VERSION:
        kind = OffsetFetchResponse.OffsetFetchResponseGroup.OffsetFetchResponseTopics
        entry = kind.OffsetFetchResponsePartitions
    else:
        kind = OffsetFetchResponse.OffsetFetchResponseTopic
        entry = kind.OffsetFetchResponsePartition
    return [
        kind(
            version=version,
            name=topic.name,
            partitions=[
                entry(
                    version=version,
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]


def refused_topics(topics: Iterable[Any], error_code: int) -> list[answers.FetchedOffsetsOfTopic]:
    """The partitions that were asked for, each with the error, as the coordinator would name them."""
    fetched = answers.FetchedOffset
    return [
        answers.FetchedOffsetsOfTopic(
            topic.name,
            [fetched(partition_index=each, error_code=error_code) for each in topic.partition_indexes],
        )
        for topic in topics
    ]


def _deleted_offsets(_message: Any, version: int, responses: Sequence[Any]) -> Any:
    (response,) = responses
    kind = OffsetDeleteResponse.OffsetDeleteResponseTopic
    topics = _results(version, kind, kind.OffsetDeleteResponsePartition, response.topics)
    return OffsetDeleteResponse(
        version=version, error_code=response.error_code, throttle_time_ms=0, topics=topics
    )


def _described(message: Any, version: int, responses: Sequence[Any]) -> Any:
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
                ALL_OPERATIONS if message.include_authorized_operations and not each.error_code else None
            ),
        )
        for group_id, each in zip(message.groups, responses, strict=True)
    ]
    return DescribeGroupsResponse(version=version, throttle_time_ms=0, groups=groups)


def _deleted(message: Any, version: int, responses: Sequence[Any]) -> Any:
    entry = DeleteGroupsResponse.DeletableGroupResult
    results = [
        entry(version=version, group_id=group_id, error_code=each.error_code)
        for group_id, each in zip(dict.fromkeys(message.groups_names), responses, strict=True)
    ]
    return DeleteGroupsResponse(version=version, throttle_time_ms=0, results=results)


class _Pair(NamedTuple):
    """The way there and the way back of one API."""

    requests: Callable[[Any, int, _About], list[contract.AnyRequest]]
    response: Callable[[Any, int, Sequence[Any]], Any]


_PAIRS: dict[int, _Pair] = {
    JoinGroupResponse.API_KEY: _Pair(_join, _joined),
    SyncGroupResponse.API_KEY: _Pair(_sync, _synced),
    HeartbeatResponse.API_KEY: _Pair(_beat, _beaten),
    LeaveGroupResponse.API_KEY: _Pair(_leave, _left),
    OffsetCommitResponse.API_KEY: _Pair(_commit, _committed),
    OffsetFetchResponse.API_KEY: _Pair(_fetch, _fetched),
    OffsetDeleteResponse.API_KEY: _Pair(_delete_offsets, _deleted_offsets),
    DescribeGroupsResponse.API_KEY: _Pair(_describe, _described),
    DeleteGroupsResponse.API_KEY: _Pair(_delete, _deleted),
}


# -- refusals ------------------------------------------------------------------------------------------


def refusal(request: contract.AnyRequest, error: Errors) -> Any:
    """The response that the coordinator would give if it answered `request` with `error`.

    The gateway gives it for errors of its own, and NONE to a leave that stands in the log.
    """
    response: Any = request.refused(error, None)
    match request:
        case contract.OffsetCommitRequest():
            response.topics = [
                answers.TopicResult(
                    topic.name,
                    [answers.PartitionResult(each.partition_index, error.value) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        case contract.LeaveGroupRequest() if error is Errors.NONE:
            response.members = [
                answers.MemberResult(member_id=each.member_id, group_instance_id=each.group_instance_id)
                for each in request.members
            ]
        case _:
            pass
    return response


_REFUSED_UNREAD: dict[int, tuple[Any, dict[str, Any], Errors]] = {
    JoinGroupResponse.API_KEY: (JoinGroupRequest, {"protocols": []}, Errors.GROUP_MAX_SIZE_REACHED),
    SyncGroupResponse.API_KEY: (SyncGroupRequest, {"assignments": []}, Errors.UNKNOWN_SERVER_ERROR),
}
"""Requests that may be large and whose response names nothing of them."""


def may_refuse_unread(head: RequestHead) -> bool:
    """Whether a request can be answered of which only the head is known."""
    return head.api_key in _REFUSED_UNREAD


def refused_unread(head: RequestHead) -> Any:
    """Kafka's response to a request that was too large to be read: an error that ends the attempt."""
    kind, lists, error = _REFUSED_UNREAD[head.api_key]
    empty = kind(version=head.api_version, group_id="", member_id="", **lists)
    request = Request(head, None, empty)
    (asked,) = to_contract(request, Sender("", "", 0, str))
    return to_kafka(request, [refusal(asked, error)])
