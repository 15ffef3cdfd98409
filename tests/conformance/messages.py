"""The contract's requests and responses as messages of Kafka's own protocol.

A request is the dict that is also given to the core (field names of `docs/contract.md`, bytes as bytes), and
an answer comes back in the same terms, so that what both sides say can be held side by side. A field that
a version's schema lacks is not sent, and comes back as its default. Kafka 4.2 takes every version of the
contract's APIs, so every version is compared.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

from tests.conformance.consumer import messages as consumer

__all__ = ["frame", "offsets_by_partition", "read"]

_APIS = {
    "join_group": (JoinGroupRequest, JoinGroupResponse),
    "sync_group": (SyncGroupRequest, SyncGroupResponse),
    "heartbeat": (HeartbeatRequest, HeartbeatResponse),
    "leave_group": (LeaveGroupRequest, LeaveGroupResponse),
    "offset_commit": (OffsetCommitRequest, OffsetCommitResponse),
    "offset_fetch": (OffsetFetchRequest, OffsetFetchResponse),
    "offset_delete": (OffsetDeleteRequest, OffsetDeleteResponse),
    "describe_group": (DescribeGroupsRequest, DescribeGroupsResponse),
    "delete_group": (DeleteGroupsRequest, DeleteGroupsResponse),
    "list_groups": (ListGroupsRequest, ListGroupsResponse),
    **consumer.APIS,
}
_ENVELOPE = {"api", "api_version", "request_id", "client_id", "client_host", "group_id"}
_BATCH_LEAVE_VERSION = 3
_BATCH_FETCH_VERSION = 8
_OF_A_PARTITION = {3, 12}
"""Errors of a commit that are never those of all of it."""


# -- requests ----------------------------------------------------------------------------------------


def frame(request: dict[str, Any]) -> bytes:
    """`request` as it is sent."""
    api, version = request["api"], request["api_version"]
    fields = {name: value for name, value in request.items() if name not in _ENVELOPE}
    if api in _FIELDS:
        fields = _FIELDS[api](request, version, fields)
    else:
        fields["group_id"] = request["group_id"]
    message = _APIS[api][0][version](**fields)
    message.with_header(correlation_id=1, client_id=request["client_id"])
    return bytes(message.encode(header=True, framed=True))


def _join(request: dict[str, Any], _version: int, fields: dict[str, Any]) -> dict[str, Any]:
    entry = JoinGroupRequest.JoinGroupRequestProtocol
    protocols = [entry(**protocol) for protocol in request["protocols"]]
    return fields | {"group_id": request["group_id"], "protocols": protocols}


def _sync(request: dict[str, Any], _version: int, fields: dict[str, Any]) -> dict[str, Any]:
    entry = SyncGroupRequest.SyncGroupRequestAssignment
    assignments = [entry(**assignment) for assignment in request["assignments"]]
    return fields | {"group_id": request["group_id"], "assignments": assignments}


def _leave(request: dict[str, Any], version: int, _fields: dict[str, Any]) -> dict[str, Any]:
    if version < _BATCH_LEAVE_VERSION:
        (member,) = request["members"]
        return {"group_id": request["group_id"], "member_id": member["member_id"]}
    entry = LeaveGroupRequest.MemberIdentity
    return {
        "group_id": request["group_id"],
        "members": [entry(**member) for member in request["members"]],
    }


def _commit(request: dict[str, Any], _version: int, fields: dict[str, Any]) -> dict[str, Any]:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    entry = kind.OffsetCommitRequestPartition
    generation_id = fields.pop("generation_id")
    return fields | {
        "group_id": request["group_id"],
        "generation_id_or_member_epoch": generation_id,
        "topics": [
            kind(name=topic["name"], partitions=[entry(**partition) for partition in topic["partitions"]])
            for topic in request["topics"]
        ],
    }


def _fetch(request: dict[str, Any], version: int, fields: dict[str, Any]) -> dict[str, Any]:
    is_batch = version >= _BATCH_FETCH_VERSION
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    kind = group.OffsetFetchRequestTopics if is_batch else OffsetFetchRequest.OffsetFetchRequestTopic
    topics = request["topics"] if request["topics"] is None else [kind(**each) for each in request["topics"]]
    named = {"group_id": request["group_id"], "topics": topics}
    if is_batch:
        named |= {name: fields[name] for name in ("member_id", "member_epoch") if name in fields}
        return {"groups": [group(**named)], "require_stable": fields["require_stable"]}
    return fields | named


def _delete_offsets(request: dict[str, Any], _version: int, _fields: dict[str, Any]) -> dict[str, Any]:
    kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
    entry = kind.OffsetDeleteRequestPartition
    return {
        "group_id": request["group_id"],
        "topics": [
            kind(name=topic["name"], partitions=[entry(**partition) for partition in topic["partitions"]])
            for topic in request["topics"]
        ],
    }


_FIELDS = {
    "join_group": _join,
    "sync_group": _sync,
    "leave_group": _leave,
    "offset_commit": _commit,
    "offset_fetch": _fetch,
    "offset_delete": _delete_offsets,
    "describe_group": lambda request, _version, _fields: {
        "groups": [request["group_id"]],
        "include_authorized_operations": False,
    },
    "delete_group": lambda request, _version, _fields: {"groups_names": [request["group_id"]]},
    "list_groups": lambda _request, _version, fields: fields,
    **consumer.FIELDS,
}


# -- responses ---------------------------------------------------------------------------------------


def read(request: dict[str, Any], received: bytes) -> dict[str, Any]:
    """The fields of the contract's response to `request`, from what was `received`."""
    api, version = request["api"], request["api_version"]
    response = _APIS[api][1].decode(received, version=version, header=True, framed=True)
    reader = _READERS.get(api)
    return reader(response, request) if reader else _fields(response, "error_code")


def _joined(response: Any, _request: dict[str, Any]) -> dict[str, Any]:
    names = ("error_code", "generation_id", "protocol_type", "protocol_name", "leader", "member_id")
    members = [
        _fields(member, "member_id", "group_instance_id") | {"metadata": bytes(member.metadata)}
        for member in response.members
    ]
    return _fields(response, *names, "skip_assignment") | {"members": members}


def _synced(response: Any, _request: dict[str, Any]) -> dict[str, Any]:
    fields = _fields(response, "error_code", "protocol_type", "protocol_name")
    return fields | {"assignment": bytes(response.assignment)}


def _left(response: Any, _request: dict[str, Any]) -> dict[str, Any]:
    names = ("member_id", "group_instance_id", "error_code")
    return _fields(response, "error_code") | {
        "members": [_fields(member, *names) for member in response.members or []]
    }


def _committed(response: Any, _request: dict[str, Any]) -> dict[str, Any]:
    topics = _topics(response.topics, "partition_index", "error_code")
    # What is wrong with a whole commit: Kafka has no other place for it than each partition.
    errors = {partition["error_code"] for topic in topics for partition in topic["partitions"]}
    of_all = next(iter(errors - _OF_A_PARTITION), 0) if len(errors) == 1 else 0
    return {"error_code": of_all, "topics": topics}


def _fetched(response: Any, request: dict[str, Any]) -> dict[str, Any]:
    told = response if request["api_version"] < _BATCH_FETCH_VERSION else response.groups[0]
    names = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    return _fields(told, "error_code") | {"topics": _topics(told.topics, *names)}


def _deleted_offsets(response: Any, _request: dict[str, Any]) -> dict[str, Any]:
    topics = _topics(response.topics, "partition_index", "error_code")
    return _fields(response, "error_code") | {"topics": topics}


def _described(response: Any, _request: dict[str, Any]) -> dict[str, Any]:
    (group,) = response.groups
    members = [
        _fields(member, "member_id", "group_instance_id", "client_id")
        | {
            "member_metadata": bytes(member.member_metadata),
            "member_assignment": bytes(member.member_assignment),
        }
        for member in group.members
    ]
    fields = _fields(group, "error_code", "group_state", "protocol_type", "protocol_data")
    return fields | {"members": members}


def _deleted_group(response: Any, _request: dict[str, Any]) -> dict[str, Any]:
    return _fields(response.results[0], "error_code")


def _listed(response: Any, request: dict[str, Any]) -> dict[str, Any]:
    groups = [
        _fields(group, "protocol_type", "group_state", "group_type")
        for group in response.groups
        if group.group_id == request["group_id"]
    ]
    return _fields(response, "error_code") | {"groups": groups}


_READERS = {
    "join_group": _joined,
    "sync_group": _synced,
    "leave_group": _left,
    "offset_commit": _committed,
    "offset_fetch": _fetched,
    "offset_delete": _deleted_offsets,
    "describe_group": _described,
    "delete_group": _deleted_group,
    "list_groups": _listed,
    **consumer.READERS,
}


def _fields(message: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(message, name) for name in names}


def _topics(topics: Any, *names: str) -> list[dict[str, Any]]:
    return [
        {"name": topic.name, "partitions": [_fields(each, *names) for each in topic.partitions]}
        for topic in topics
    ]


def offsets_by_partition(topics: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """What an answer to OffsetFetch tells, in no order: offset, leader epoch, metadata."""
    names = ("committed_offset", "committed_leader_epoch", "metadata")
    return {
        f"{topic['name']}-{each['partition_index']}": [each[name] for name in names]
        for topic in topics
        for each in topic["partitions"]
    }
