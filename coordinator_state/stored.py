"""A group as it is stored: the version, the group's fields by position, and its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.kinds import KINDS

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.kinds import AnyGroup

SCHEMA_VERSION = 6
"""Version of the stored state. Fields that are added at the end, with defaults, need no new one, unless a
program that does not know them would lose something."""
READABLE_VERSIONS = (5, SCHEMA_VERSION)
"""Versions that are read. Before version 6 all groups are classic."""


class _Stored(msgspec.Struct, array_like=True):
    version: int
    group: msgspec.Raw
    kind: str


_encoder = msgspec.msgpack.Encoder()
_states = msgspec.msgpack.Decoder(_Stored)
_groups = {name: msgspec.msgpack.Decoder(kind.group) for name, kind in KINDS.items()}


def encode_group(group: AnyGroup) -> bytes:
    """The group as it is stored."""
    return _encoder.encode((SCHEMA_VERSION, group, group.KIND))


def decode_group(state: bytes) -> AnyGroup:
    """The stored group; `ValueError` if another version of this program has written it."""
    stored = _states.decode(state)
    if stored.version not in READABLE_VERSIONS:
        first, *_, last = READABLE_VERSIONS
        raise ValueError(
            f"stored state has schema version {stored.version}, this program reads {first} to {last}"
        )
    return _groups[stored.kind].decode(stored.group)
