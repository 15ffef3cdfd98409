"""Stored groups as people can read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.coordinator_state.committed import CommittedOffsets

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup

__all__ = ["readable"]


def readable(group: ClassicGroup) -> dict[str, Any]:
    """`group` with the names of its fields, for JSON; its committed offsets as a list."""
    offsets = [
        {"topic": topic, "partition": partition} | msgspec.structs.asdict(offset)
        for topic, partition, offset in CommittedOffsets(group.offsets)
    ]
    return {**_named(group), "offsets": offsets}


def _named(value: Any) -> Any:
    # The state has its structs as arrays, which is all that JSON would show of them.
    if isinstance(value, msgspec.Struct):
        return {name: _named(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: _named(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_named(each) for each in value]
    return msgspec.to_builtins(value)
