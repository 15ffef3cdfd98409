"""Which versions Kafka's APIs have, and which of their fields."""

from __future__ import annotations

from typing import Any

__all__ = ["as_of", "clamped"]

_OLDEST = {"offset_commit": 2, "offset_fetch": 1}
_NEWEST = {
    "join_group": 9,
    "sync_group": 5,
    "heartbeat": 4,
    "leave_group": 5,
    "offset_commit": 9,
    "offset_fetch": 9,
    "offset_delete": 0,
    "describe_group": 6,
    "delete_group": 2,
    "list_groups": 5,
}
_SINCE = {
    "join_group": {"rebalance_timeout_ms": 1, "group_instance_id": 5, "reason": 8},
    "sync_group": {"group_instance_id": 3, "protocol_type": 5, "protocol_name": 5},
    "heartbeat": {"group_instance_id": 3},
    "offset_commit": {"group_instance_id": 7},
    "offset_fetch": {"require_stable": 7},
    "list_groups": {"states_filter": 4},
}
_UNTIL = {"offset_commit": {"retention_time_ms": 4}}
_SEVERAL_LEAVE_SINCE = 3
_REASON_TO_LEAVE_SINCE = 5
_LEADER_EPOCH_SINCE = 6
_ALL_OFFSETS_SINCE = 2


def clamped(fields: dict[str, Any], version: int | None) -> int:
    """The version that is nearest to `version` and can say what `fields` say; None is the newest."""
    api = fields["api"]
    asks_for_all = api == "offset_fetch" and fields["topics"] is None
    oldest = _ALL_OFFSETS_SINCE if asks_for_all else _OLDEST.get(api, 0)
    return _NEWEST[api] if version is None else max(oldest, min(version, _NEWEST[api]))


def as_of(version: int, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that `version` has; what it lacks cannot be sent."""
    match fields["api"]:
        case "leave_group" if version < _SEVERAL_LEAVE_SINCE:
            return fields | {"members": [{"member_id": fields["members"][0]["member_id"]}]}
        case "leave_group" if version < _REASON_TO_LEAVE_SINCE:
            return fields | {"members": [_without("reason", each) for each in fields["members"]]}
        case "offset_commit" if version < _LEADER_EPOCH_SINCE:
            fields = fields | {"topics": [_without_epochs(topic) for topic in fields["topics"]]}
    since, until = _SINCE.get(fields["api"], {}), _UNTIL.get(fields["api"], {})
    return {
        name: value
        for name, value in fields.items()
        if since.get(name, version) <= version <= until.get(name, version)
    }


def _without_epochs(topic: dict[str, Any]) -> dict[str, Any]:
    return topic | {"partitions": [_without("committed_leader_epoch", each) for each in topic["partitions"]]}


def _without(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {each: value for each, value in fields.items() if each != name}
