"""Which versions Kafka's APIs have, and which of their fields."""

from __future__ import annotations

from typing import Any

from tests.conformance.messages import APIS, BATCH_FETCH_VERSION

__all__ = ["as_of", "clamped"]

_OLDEST = {"offset_commit": 2, "offset_fetch": 1}
_NEWEST = {"offset_commit": 9, "offset_fetch": 9}
"""The last that have names of topics."""
_SEVERAL_LEAVE_SINCE = 3
_ALL_OFFSETS_SINCE = 2


def clamped(fields: dict[str, Any], version: int | None) -> int:
    """The version that is nearest to `version` and can say what `fields` say; None is the newest."""
    api = fields["api"]
    asks_for_all = api == "offset_fetch" and fields["topics"] is None
    oldest = _ALL_OFFSETS_SINCE if asks_for_all else _OLDEST.get(api, 0)
    newest = _NEWEST.get(api, APIS[api][0].max_version)
    return newest if version is None else max(oldest, min(version, newest))


def as_of(version: int, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that `version` has; what it lacks cannot be sent."""
    match fields["api"]:
        case "leave_group" if version < _SEVERAL_LEAVE_SINCE:
            return fields | {"members": [{"member_id": fields["members"][0]["member_id"]}]}
        case "offset_fetch" if version >= BATCH_FETCH_VERSION:
            return fields
    return _as_of(version, APIS[fields["api"]][0], fields)


def _as_of(version: int, kind: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Those of a message, or of what it has within it; a field that it does not know is the contract's."""
    found = {}
    for name, value in fields.items():
        field = kind.fields.get(name)
        if field is None:
            found[name] = value
        elif field.for_version_q(version):
            is_nested = field.is_struct_array() and value is not None
            found[name] = [_as_of(version, field, each) for each in value] if is_nested else value
    return found
