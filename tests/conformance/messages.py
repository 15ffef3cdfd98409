"""The contract's requests and responses as messages of Kafka's own protocol.

A request is the dict that is also given to the core (field names of `docs/contract.md`, bytes as bytes), and
an answer comes back in the same terms, so that what both sides say can be held side by side. A field that
a version's schema lacks is not sent, and comes back as its default. Kafka 4.2 takes every version of the
contract's APIs, so every version is compared.
"""

from __future__ import annotations

import base64
import uuid
from typing import Any

from kafka.protocol.admin import groups
from kafka.protocol.consumer import group

from group_coordinator.gateway import messages as gateway

__all__ = ["APIS", "BATCH_FETCH_VERSION", "frame", "offsets_by_partition", "read", "topic_id_of"]

_NAMES = {
    "join_group": (group, "JoinGroup"),
    "sync_group": (group, "SyncGroup"),
    "heartbeat": (group, "Heartbeat"),
    "leave_group": (group, "LeaveGroup"),
    "offset_commit": (group, "OffsetCommit"),
    "offset_fetch": (group, "OffsetFetch"),
    "offset_delete": (group, "OffsetDelete"),
    "describe_group": (groups, "DescribeGroups"),
    "delete_group": (groups, "DeleteGroups"),
    "list_groups": (groups, "ListGroups"),
    "consumer_group_heartbeat": (gateway, "ConsumerGroupHeartbeat"),
    "consumer_group_describe": (gateway, "ConsumerGroupDescribe"),
}
APIS = {
    api: (getattr(module, f"{name}Request"), getattr(module, f"{name}Response"))
    for api, (module, name) in _NAMES.items()
}
"""Requests and responses, of which each knows its fields and since which version it has them."""

BATCH_FETCH_VERSION = 8
_BATCH_LEAVE_VERSION = 3
_ENVELOPE = {"api", "api_version", "request_id", "client_id", "client_host", "group_id"}
_OF_A_PARTITION = {3, 12}
"""Errors of a commit that are never those of all of it."""


# -- requests ----------------------------------------------------------------------------------------


def frame(request: dict[str, Any]) -> bytes:
    """`request` as it is sent."""
    kind, version = APIS[request["api"]][0], request["api_version"]
    fields = {name: value for name, value in request.items() if name not in _ENVELOPE}
    message = _filled(kind[version], kind, _in_kafkas_terms(request, fields))
    message.with_header(correlation_id=1, client_id=request["client_id"])
    return bytes(message.encode(header=True, framed=True))


def _in_kafkas_terms(request: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that Kafka's message has, of those that are left of the contract's."""
    group_id = request["group_id"]
    named: dict[str, Any] = {"group_id": group_id}
    match request["api"]:
        case "leave_group" if request["api_version"] < _BATCH_LEAVE_VERSION:
            (member,) = fields["members"]
            fields = {"member_id": member["member_id"]}
        case "offset_commit":
            fields["generation_id_or_member_epoch"] = fields.pop("generation_id")
        case "offset_fetch" if request["api_version"] >= BATCH_FETCH_VERSION:
            require_stable = fields.pop("require_stable")
            named, fields = {"require_stable": require_stable}, {"groups": [named | fields]}
        case "describe_group":
            named = {"groups": [group_id], "include_authorized_operations": False}
        case "delete_group":
            named = {"groups_names": [group_id]}
        case "list_groups":
            named = {}
        case "consumer_group_heartbeat":
            fields["instance_id"] = fields.pop("group_instance_id", None)
            fields.pop("topics", None)  # hints, which are for the core
        case "consumer_group_describe":
            named = {"group_ids": [group_id], "include_authorized_operations": False}
    return fields | named


def _filled(make: Any, kind: Any, fields: dict[str, Any]) -> Any:
    """What `make` makes of `fields`, which may have others within them, as `kind` knows."""
    return make(**{name: _value(kind.fields[name], value) for name, value in fields.items()})


def _value(field: Any, value: Any) -> Any:
    if field.is_struct_array() and value is not None:
        return [_filled(field.data_class, field, each) for each in value]
    return _uuid_of(value) if field.name == "topic_id" else value


# -- responses ---------------------------------------------------------------------------------------

_ERRORS = ("topics", ("name", ("partitions", ("partition_index", "error_code"))))
_OFFSETS = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
_ASSIGNMENT = (("topic_partitions", ("topic_id", "partitions")),)
_MEMBER = ("member_id", "group_instance_id")

_TOLD: dict[str, tuple[Any, ...]] = {
    "join_group": (
        *("error_code", "generation_id", "protocol_type", "protocol_name", "leader", "member_id"),
        *("skip_assignment", ("members", (*_MEMBER, "metadata"))),
    ),
    "sync_group": ("error_code", "protocol_type", "protocol_name", "assignment"),
    "heartbeat": ("error_code",),
    "leave_group": ("error_code", ("members", (*_MEMBER, "error_code"))),
    "offset_commit": (_ERRORS,),
    "offset_fetch": ("error_code", ("topics", ("name", ("partitions", _OFFSETS)))),
    "offset_delete": ("error_code", _ERRORS),
    "describe_group": (
        *("error_code", "group_state", "protocol_type", "protocol_data"),
        ("members", (*_MEMBER, "client_id", "member_metadata", "member_assignment")),
    ),
    "delete_group": ("error_code",),
    "list_groups": ("error_code", ("groups", ("group_id", "protocol_type", "group_state", "group_type"))),
    "consumer_group_heartbeat": (
        *("error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms"),
        ("assignment", _ASSIGNMENT),
    ),
    "consumer_group_describe": (
        *("error_code", "group_state", "group_epoch", "assignment_epoch", "assignor_name"),
        (
            "members",
            (
                *("member_id", "rack_id", "member_epoch", "client_id", "client_host", "member_type"),
                *("subscribed_topic_regex", "subscribed_topic_names", "instance_id"),
                *(("assignment", _ASSIGNMENT), ("target_assignment", _ASSIGNMENT)),
            ),
        ),
    ),
}
"""The fields that are read of an answer, some with those that they have within them."""


def read(request: dict[str, Any], received: bytes) -> dict[str, Any]:
    """The fields of the contract's response to `request`, from what was `received`."""
    api, version = request["api"], request["api_version"]
    told = APIS[api][1].decode(received, version=version, header=True, framed=True)
    match api:
        case "describe_group" | "consumer_group_describe":
            (told,) = told.groups
        case "offset_fetch" if version >= BATCH_FETCH_VERSION:
            (told,) = told.groups
        case "delete_group":
            (told,) = told.results
    return _in_our_terms(request, _picked(told, _TOLD[api]))


def _picked(told: Any, names: Any) -> Any:
    """What Kafka's message has of these names."""
    if told is None:
        return None
    if isinstance(told, list):
        return [_picked(each, names) for each in told]
    found = {}
    for each in names:
        if isinstance(each, tuple):
            name, within = each
            found[name] = _picked(getattr(told, name), within)
        else:
            found[each] = _plain(getattr(told, each))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return topic_id_of(value)
    return bytes(value) if isinstance(value, memoryview) else value


def _in_our_terms(request: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    match request["api"]:
        case "leave_group":
            told["members"] = told["members"] or []
        case "offset_commit":
            # What is wrong with a whole commit: Kafka has no other place for it than each partition.
            errors = {
                partition["error_code"] for topic in told["topics"] for partition in topic["partitions"]
            }
            told["error_code"] = next(iter(errors - _OF_A_PARTITION), 0) if len(errors) == 1 else 0
        case "list_groups":
            listed = [each for each in told["groups"] if each.pop("group_id") == request["group_id"]]
            told["groups"] = listed
        case "consumer_group_heartbeat":
            _open(told, "assignment")
        case "consumer_group_describe":
            for member in told["members"]:
                member["group_instance_id"] = member.pop("instance_id")
                _open(member, "assignment")
                _open(member, "target_assignment")
    return told


def _open(told: dict[str, Any], name: str) -> None:
    """Let an assignment be the partitions that are all it has."""
    if told[name] is not None:
        told[name] = told[name]["topic_partitions"]


def offsets_by_partition(topics: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """What an answer to OffsetFetch tells, in no order: offset, leader epoch, metadata."""
    names = ("committed_offset", "committed_leader_epoch", "metadata")
    return {
        f"{topic['name']}-{each['partition_index']}": [each[name] for name in names]
        for topic in topics
        for each in topic["partitions"]
    }


def topic_id_of(it: uuid.UUID) -> str:
    """The id as Kafka's tools print it."""
    return base64.urlsafe_b64encode(it.bytes).decode().rstrip("=")


def _uuid_of(topic_id: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{topic_id}=="))
