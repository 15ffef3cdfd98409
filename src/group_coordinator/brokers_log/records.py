"""The records of `__consumer_offsets`, as all versions of Kafka up to 4.4 write them.

The number that a key begins with is the kind of the record, and no version. Kinds 0 and 1 are offsets, and 2
is a group of the classic protocol. Kinds 3 to 8 and 16 are of the consumer protocol (`consumer/records.py`).
The others are of share groups and Streams. A value begins with its version. A reader of newer records than
it knows has to go on, and say so.

Source: OffsetCommitKey.json, OffsetCommitValue.json, GroupMetadataKey.json, GroupMetadataValue.json and
CoordinatorRecordType of Apache Kafka 4.4.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from group_coordinator.brokers_log.consumer.records import (
    READERS,
    ConsumerRecord,
    MemberShare,
    MemberTarget,
)
from group_coordinator.brokers_log.values import (
    NewerError,
    limited_ms,
    read_value,
    text,
    text_or_none,
    uuid_of,
)
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.committed import CommittedOffset
from group_coordinator.coordinator_state.responses import GroupPicture, PicturedMember
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.wire import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from group_coordinator.coordinator_state.log import Record

    T = TypeVar("T")

_OFFSET_COMMITS = frozenset({0, 1})
_GROUP_METADATA = 2
_GROUPS_OF_OTHER_PROTOCOLS = frozenset({11, 17})
"""Of share groups and Streams: the record that is there as long as its group."""

_NEWEST_VALUE = 4
_FLEXIBLE = 4
"""The version of both values that has compact lengths and tagged fields."""
_OFFSET_WITH_EXPIRY, _OFFSET_WITH_EPOCH = 1, 3
_WITH_IDS = frozenset({b"\0\7", b"\0\10"})
"""The beginnings of the keys of kinds 7 and 8."""
_TAG_OF_TOPIC_ID = 0
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
    """A record of a kind that is not read.

    `is_group`: it is there as long as its group. `is_tombstone`: it is gone.
    """

    kind: int
    group_id: str
    is_group: bool
    is_tombstone: bool


class Unreadable(NamedTuple):
    """A record that cannot be read, for `reason`, which is one line. `is_newer`: its version is not known."""

    reason: str
    is_newer: bool = False


AnyRecord: TypeAlias = OffsetCommit | GroupMetadata | ConsumerRecord | Unknown | Unreadable


def read_record(key: bytes | None, value: bytes | None) -> AnyRecord:
    """Read a record; a value of None is a tombstone. Bytes after its end are passed over, as Kafka does."""
    if key is None:
        return Unreadable("the record has no key")
    try:
        place = Place(key, is_flexible=False)
        kind, group_id = place.number(2), text(place)
        return _of_kind(kind, group_id, place, value)
    except NewerError as error:
        return Unreadable(str(error), is_newer=True)
    except FrameError as error:
        return Unreadable(str(error))


def _of_kind(kind: int, group_id: str, place: Place, value: bytes | None) -> AnyRecord:
    if kind in _OFFSET_COMMITS:
        return OffsetCommit(group_id, text(place), place.number(4), _read(value, _committed))
    if kind == _GROUP_METADATA:
        return GroupMetadata(group_id, _read(value, partial(_group, group_id)))
    if kind in READERS:
        return READERS[kind](place, value)
    return Unknown(kind, group_id, kind in _GROUPS_OF_OTHER_PROTOCOLS, value is None)


def topic_ids(records: Iterable[Record]) -> set[str]:
    """The ids of the topics that these records name by nothing but an id."""
    found: set[str] = set()
    for each in records:
        # Most records are commits, which need not be read for this.
        if each.key is not None and each.key[:2] in _WITH_IDS:
            match read_record(each.key, each.value):
                case MemberTarget(partitions=dict(partitions)):
                    found |= partitions.keys()
                case MemberShare(assigned=assigned, pending=pending):
                    found |= assigned.keys() | pending.keys()
                case _:
                    pass
    return found - {""}


# -- values ----------------------------------------------------------------------------------------------


def _read(value: bytes | None, read: Callable[[Place, int], T]) -> T | None:
    return read_value(value, read, _NEWEST_VALUE, _FLEXIBLE)


def _committed(place: Place, version: int) -> CommittedOffset:
    offset = place.number(8)
    epoch = place.number(4) if version >= _OFFSET_WITH_EPOCH else -1
    metadata, committed_ms = text(place), place.number(8)
    expires_ms = place.number(8) if version == _OFFSET_WITH_EXPIRY else -1
    topic_id = place.tags().get(_TAG_OF_TOPIC_ID, b"")
    return CommittedOffset(
        offset=offset,
        leader_epoch=epoch,
        metadata=metadata,
        commit_timestamp_ms=limited_ms(committed_ms),
        expire_timestamp_ms=None if expires_ms < 0 else limited_ms(expires_ms),
        topic_id=uuid_of(topic_id),
    )


def _group(group_id: str, place: Place, version: int) -> GroupPicture:
    protocol_type, generation_id = text(place), place.number(4)
    protocol_name, leader = text_or_none(place), text_or_none(place)
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
        state_timestamp_ms=-1 if timestamp_ms < 0 else limited_ms(timestamp_ms),
    )


def _member(place: Place, version: int) -> PicturedMember:
    member_id = text(place)
    instance_id = text_or_none(place) if version >= _GROUP_WITH_INSTANCES else None
    client_id, client_host = text(place), text(place)
    rebalance_ms = place.number(4) if version >= _GROUP_WITH_REBALANCE_TIMEOUT else None
    session_ms = place.number(4)
    member = PicturedMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        member_metadata=place.octets(),
        member_assignment=place.octets(),
        session_timeout_ms=limited_ms(session_ms),
        # As the group's coordinator has it after it has read such a record.
        rebalance_timeout_ms=session_ms if rebalance_ms is None else rebalance_ms,
    )
    place.skip_tags()
    return member
