"""A group at the brokers as it is stored between two batches."""

from __future__ import annotations

import msgspec

from group_coordinator.coordinator_state.responses import GroupPicture

__all__ = ["SCHEMA_VERSION", "ObservedGroup", "decode_group", "encode_group"]

SCHEMA_VERSION = 1
"""Version of the stored state. Fields that are added at the end, with defaults, need no new one."""


class Untold(msgspec.Struct, frozen=True, array_like=True):
    """A commit that no event has told of yet. `cause`: its record, for the event's id."""

    topic: str
    partition: int
    at_ms: int
    cause: str


class ObservedGroup(msgspec.Struct, array_like=True):
    """All that is known of one group. Its size depends on its members and offsets, not on its commits.

    Times are in ms of log time: record timestamps, which do not go back.
    """

    group_id: str
    now_ms: int = 0
    place: int = 0
    """The place in the log of its newest change (`coordinator_state/newest.py`)."""
    read: dict[int, int] = {}
    """The newest offset that was read, by partition. A record that comes again changes nothing."""
    picture: GroupPicture | None = None
    """The group as it was last written down; None if it was not, or was deleted."""
    is_of_newer_protocol: bool = False
    """Whether there are records of it that are not read here."""
    offsets: bytes = b""
    """Its committed offsets, as `CommittedOffsets` reads and writes them."""
    untold: list[Untold] = []
    """The newest commit of each partition since the last event about it, in the order of the log."""
    tell_ms: int | None = None
    """When an event tells of these."""
    simple_since_ms: int = 0
    """Since when it has had offsets, although it was not written down."""


class _Stored(msgspec.Struct, array_like=True):
    version: int
    group: msgspec.Raw


_encoder = msgspec.msgpack.Encoder()
_states = msgspec.msgpack.Decoder(_Stored)
_groups = msgspec.msgpack.Decoder(ObservedGroup)


def encode_group(group: ObservedGroup) -> bytes:
    """The group as it is stored."""
    return _encoder.encode((SCHEMA_VERSION, group))


def decode_group(state: bytes) -> ObservedGroup:
    """The stored group; `ValueError` if another version of this program has written it."""
    stored = _states.decode(state)
    if stored.version != SCHEMA_VERSION:
        raise ValueError(
            f"stored state has schema version {stored.version}, this program reads {SCHEMA_VERSION}"
        )
    return _groups.decode(stored.group)
