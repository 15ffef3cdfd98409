"""The records of `__consumer_offsets`, as all versions of Kafka up to 4.2 write them.

The number that a key begins with is the kind of the record, and no version. Kinds 0 and 1 are offsets, 2 is
a group of the classic protocol, and the others are of newer protocols. A value begins with its version. A
reader of newer records than it knows has to go on, and say so.

Source: OffsetCommitKey.json, OffsetCommitValue.json, GroupMetadataKey.json, GroupMetadataValue.json and
CoordinatorRecordType of Apache Kafka 4.2.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.committed import CommittedOffset
from group_coordinator.coordinator_state.foreign import MOST_MS
from group_coordinator.coordinator_state.responses import GroupPicture, PicturedMember
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.wire import Place

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AnyRecord", "GroupMetadata", "OffsetCommit", "Unknown", "Unreadable", "group_key", "read_record"]

_OFFSET_COMMITS = frozenset({0, 1})
_GROUP_METADATA = 2
_GROUPS_OF_NEWER_PROTOCOLS = frozenset({3, 11, 17})
"""Of the `consumer` protocol, share groups and Streams: the record that is there as long as its group."""

_NEWEST_VALUE = 4
_FLEXIBLE = 4
"""The version of both values that has compact lengths and tagged fields."""
_OFFSET_WITH_EXPIRY, _OFFSET_WITH_EPOCH = 1, 3
_TAG_OF_TOPIC_ID, _UUID_BYTES = 0, 16
_GROUP_WITH_REBALANCE_TIMEOUT, _GROUP_WITH_TIMESTAMP, _GROUP_WITH_INSTANCES = 1, 2, 3


class OffsetCommit(NamedTuple):
    """An offset that was committed; None: it expired, was deleted, or went with its topic."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


class GroupMetadata(NamedTuple):
    """A group of the classic protocol, as it is written down; None: it was deleted.

    That happens when it becomes Stable or Empty, when a static member restarts, and from 4.0 on when it is
    new. With members it is Stable. `state_timestamp_ms`: when its join phase ended, or when it became Stable
    before a static member restarted; -1: not told, up to version 1.
    """

    group_id: str
    written: GroupPicture | None


class Unknown(NamedTuple):
    """A record of another kind. `is_group`: it is there as long as its group. `is_tombstone`: it is gone."""

    kind: int
    group_id: str
    is_group: bool
    is_tombstone: bool


class Unreadable(NamedTuple):
    """A record that cannot be read, for `reason`, which is one line. `is_newer`: its version is not known."""

    reason: str
    is_newer: bool = False


T = TypeVar("T")
AnyRecord: TypeAlias = OffsetCommit | GroupMetadata | Unknown | Unreadable


def group_key(key: bytes | None) -> bytes | None:
    """The id of the group that a record is of, as bytes. None if its key cannot be read.

    It stands at the same place in the keys of all kinds.
    """
    place = Place(key or b"", is_flexible=False)
    try:
        place.skip(2)
        return place.text_or_null()
    except FrameError:
        return None


def read_record(key: bytes | None, value: bytes | None) -> AnyRecord:
    """Read a record; a value of None is a tombstone. Bytes after its end are passed over, as Kafka does."""
    if key is None:
        return Unreadable("the record has no key")
    try:
        place = Place(key, is_flexible=False)
        kind, group_id = place.number(2), _text(place)
        if kind in _OFFSET_COMMITS:
            return OffsetCommit(group_id, _text(place), place.number(4), _read(value, _committed))
        if kind == _GROUP_METADATA:
            return GroupMetadata(group_id, _read(value, partial(_group, group_id)))
        return Unknown(kind, group_id, kind in _GROUPS_OF_NEWER_PROTOCOLS, value is None)
    except _NewerError as error:
        return Unreadable(str(error), is_newer=True)
    except FrameError as error:
        return Unreadable(str(error))


class _NewerError(FrameError):
    """The value is of a version that is not known."""


# -- values ----------------------------------------------------------------------------------------------


def _read(value: bytes | None, read: Callable[[Place, int], T]) -> T | None:
    if value is None:
        return None
    version = Place(value, is_flexible=False).number(2)
    if not 0 <= version <= _NEWEST_VALUE:
        raise _NewerError(f"a value of version {version}, and not of 0 to {_NEWEST_VALUE}")
    return read(Place(value, is_flexible=version >= _FLEXIBLE, at=2), version)


def _committed(place: Place, version: int) -> CommittedOffset:
    offset = place.number(8)
    epoch = place.number(4) if version >= _OFFSET_WITH_EPOCH else -1
    metadata, committed_ms = _text(place), place.number(8)
    expires_ms = place.number(8) if version == _OFFSET_WITH_EXPIRY else -1
    topic_id = place.tags().get(_TAG_OF_TOPIC_ID, b"")
    return CommittedOffset(
        offset=offset,
        leader_epoch=epoch,
        metadata=metadata,
        commit_timestamp_ms=_time(committed_ms),
        expire_timestamp_ms=None if expires_ms < 0 else _time(expires_ms),
        topic_id=_uuid(topic_id),
    )


def _group(group_id: str, place: Place, version: int) -> GroupPicture:
    protocol_type, generation_id = _text(place), place.number(4)
    protocol_name, leader = _text_or_none(place), _text_or_none(place)
    timestamp_ms = place.number(8) if version >= _GROUP_WITH_TIMESTAMP else -1
    # A count that is too large ends at the end of the value.
    members = [_member(place, version) for _ in range(place.count())]
    place.skip_tags()
    return GroupPicture(
        group_id=group_id,
        state=GroupState.STABLE if members else GroupState.EMPTY,
        generation_id=generation_id,
        protocol_type=protocol_type or None,
        protocol_name=protocol_name,
        leader=leader,
        members=members,
        state_timestamp_ms=-1 if timestamp_ms < 0 else _time(timestamp_ms),
    )


def _member(place: Place, version: int) -> PicturedMember:
    member_id = _text(place)
    instance_id = _text_or_none(place) if version >= _GROUP_WITH_INSTANCES else None
    client_id, client_host = _text(place), _text(place)
    rebalance_ms = place.number(4) if version >= _GROUP_WITH_REBALANCE_TIMEOUT else None
    session_ms = place.number(4)
    member = PicturedMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        member_metadata=place.octets(),
        member_assignment=place.octets(),
        session_timeout_ms=_time(session_ms),
        # As the group's coordinator has it after it has read such a record.
        rebalance_timeout_ms=session_ms if rebalance_ms is None else rebalance_ms,
    )
    place.skip_tags()
    return member


def _text(place: Place) -> str:
    text = _text_or_none(place)
    if text is None:
        raise FrameError(f"null before {place.at}, where a text has to be")
    return text


def _text_or_none(place: Place) -> str | None:
    text = place.text_or_null()
    return None if text is None else text.decode(errors="replace")


def _time(ms: int) -> int:
    """Milliseconds that a reader of the contract takes."""
    return max(0, min(ms, MOST_MS))


def _uuid(topic_id: bytes) -> str:
    """The id as it is in other commits; empty if there is none, or if it is of another length."""
    return str(UUID(bytes=topic_id)) if len(topic_id) == _UUID_BYTES and any(topic_id) else ""
