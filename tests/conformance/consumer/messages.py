"""The two APIs of the consumer protocol as Kafka's messages: ConsumerGroupHeartbeat (68) and -Describe (69).

kafka-python knows their numbers only, so their schemas are here.
"""

from __future__ import annotations

import base64
import uuid
from typing import Any

from kafka.protocol.api_message import ApiMessage

__all__ = ["APIS", "FIELDS", "READERS", "topic_id_of"]

_SCHEMAS = f"{__name__.rpartition('.')[0]}.schemas"


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=_SCHEMAS):
    """What a member says of itself; None and -1 say nothing."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=_SCHEMAS):
    """The member's epoch, and its partitions if they have changed."""


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_SCHEMAS):
    """Asks for groups."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_SCHEMAS):
    """Groups with epochs, members and targets."""


APIS = {
    "consumer_group_heartbeat": (ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
    "consumer_group_describe": (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
}
_NOT_SENT = {"topics", "group_instance_id"}
"""Hints are for the core; and Kafka has another name for the instance id."""


def topic_id_of(it: uuid.UUID) -> str:
    """The id as Kafka's tools print it."""
    return base64.urlsafe_b64encode(it.bytes).decode().rstrip("=")


def _uuid_of(topic_id: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{topic_id}=="))


def _heartbeat(request: dict[str, Any], _version: int, fields: dict[str, Any]) -> dict[str, Any]:
    entry = ConsumerGroupHeartbeatRequest.TopicPartitions
    said = {name: value for name, value in fields.items() if name not in _NOT_SENT}
    owned = request.get("topic_partitions")
    if owned is not None:
        said["topic_partitions"] = [
            entry(topic_id=_uuid_of(each["topic_id"]), partitions=each["partitions"]) for each in owned
        ]
    return said | {"group_id": request["group_id"], "instance_id": request.get("group_instance_id")}


def _describe(request: dict[str, Any], _version: int, _fields: dict[str, Any]) -> dict[str, Any]:
    return {"group_ids": [request["group_id"]], "include_authorized_operations": False}


def _answered(response: Any, _request: dict[str, Any]) -> dict[str, Any]:
    names = ("error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms")
    assignment = None if response.assignment is None else _partitions(response.assignment)
    return {name: getattr(response, name) for name in names} | {"assignment": assignment}


def _described(response: Any, _request: dict[str, Any]) -> dict[str, Any]:
    (group,) = response.groups
    names = ("error_code", "group_state", "group_epoch", "assignment_epoch", "assignor_name")
    return {name: getattr(group, name) for name in names} | {"members": [_member(it) for it in group.members]}


def _member(member: Any) -> dict[str, Any]:
    names = ("member_id", "rack_id", "member_epoch", "client_id", "client_host", "subscribed_topic_regex")
    return {name: getattr(member, name) for name in (*names, "member_type")} | {
        "group_instance_id": member.instance_id,
        "subscribed_topic_names": list(member.subscribed_topic_names),
        "assignment": _partitions(member.assignment),
        "target_assignment": _partitions(member.target_assignment),
    }


def _partitions(assignment: Any) -> list[dict[str, Any]]:
    return [
        {"topic_id": topic_id_of(each.topic_id), "partitions": list(each.partitions)}
        for each in assignment.topic_partitions
    ]


FIELDS = {"consumer_group_heartbeat": _heartbeat, "consumer_group_describe": _describe}
READERS = {"consumer_group_heartbeat": _answered, "consumer_group_describe": _described}
