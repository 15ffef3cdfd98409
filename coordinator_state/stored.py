"""A group as it is stored: the version, the group's fields by position, and its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.kinds import KINDS

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.kinds import AnyGroup

__all__ = ["SCHEMA_VERSION", "decode_group", "encode_group"]

SCHEMA_VERSION = 5
"""Version of the stored state. Fields that are added at the end, with defaults, need no new one, unless a
program that does not know them would lose something. Version 2 came with offsets, version 3 with the kind,
and version 4 with groups that are Dead. Version 5 came with the ids of the topics of offsets."""


class _Stored(msgspec.Struct, array_like=True):
    version: int
    group: msgspec.Raw
    kind: str = ClassicGroup.KIND
    """Before version 3 all groups were classic."""


_encoder = msgspec.msgpack.Encoder()
_states = msgspec.msgpack.Decoder(_Stored)
_groups = {name: msgspec.msgpack.Decoder(kind.group) for name, kind in KINDS.items()}


def encode_group(group: AnyGroup) -> bytes:
    """The group as it is stored."""
    return _encoder.encode((SCHEMA_VERSION, group, group.KIND))


def decode_group(state: bytes) -> AnyGroup:
    """The stored group; `ValueError` if it was written by a newer version of this program."""
    stored = _states.decode(state)
    if not 1 <= stored.version <= SCHEMA_VERSION:
        message = (
            f"stored state has schema version {stored.version}, this program reads 1 to {SCHEMA_VERSION}"
        )
        raise ValueError(message)
    return _groups[stored.kind].decode(stored.group)
