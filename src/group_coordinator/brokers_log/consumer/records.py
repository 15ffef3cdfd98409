"""The records of a group of the consumer protocol (KIP-848) in `__consumer_offsets`.

A heartbeat writes all that it changes at once. First comes the member, then the group's epoch, then targets
and their epoch. The partitions that the member has are last. Of a member that goes there are tombstones.

Source: ConsumerGroup*Key.json and ConsumerGroup*Value.json of Apache Kafka 4.4, which have one version each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from group_coordinator.brokers_log.values import (
    UUID_BYTES,
    limited_ms,
    read_value,
    text,
    text_or_none,
    uuid_of,
)
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.wire import Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

_NEWEST_VALUE = _FLEXIBLE = 0
_HASH_BYTES = 8
_TAG_OF_HASH = _TAG_OF_CLASSIC = 0

ById: TypeAlias = dict[str, set[int]]
"""Partitions by the id of their topic, as Kafka's records have them."""


class GroupEpoch(NamedTuple):
    """The group epoch; None: the group is gone. The hash differs if the topics that members name do.

    It is 0 up to Kafka 4.0, or if there are no such topics.
    """

    epoch: int | None
    metadata_hash: int = 0


class MemberFacts(msgspec.Struct, frozen=True, array_like=True):
    """The facts that a member has told of itself.

    `session_timeout_ms`: None unless it speaks the classic protocol.
    """

    client_id: str
    client_host: str
    topics: tuple[str, ...]
    rebalance_timeout_ms: int
    group_instance_id: str | None = None
    pattern: str = ""
    server_assignor: str | None = None
    session_timeout_ms: int | None = None


class MemberRecord(NamedTuple):
    """A member; None: it is in the group no more, or goes on under another member id."""

    member_id: str
    facts: MemberFacts | None


class AssignmentEpoch(NamedTuple):
    """The group epoch that the targets before this record are of; None: the group is gone."""

    epoch: int | None


class MemberTarget(NamedTuple):
    """A member's part of the target; None: it is in the group no more."""

    member_id: str
    partitions: ById | None


class MemberShare(NamedTuple):
    """A member's epoch, and the partitions that it has; None: it is in the group no more.

    `state`: Kafka's number of MemberState. `pending`: the partitions that it is to give up.
    """

    member_id: str
    epoch: int | None
    state: int
    assigned: ById
    pending: ById


class ResolvedPattern(NamedTuple):
    """The topics that match a pattern which members subscribe to; None: no member does any more."""

    pattern: str
    topics: tuple[str, ...] | None


class Obsolete(NamedTuple):
    """The topics as a group knew them, up to Kafka 4.0. Newer brokers only delete this record."""


ConsumerRecord: TypeAlias = (
    GroupEpoch | MemberRecord | AssignmentEpoch | MemberTarget | MemberShare | ResolvedPattern | Obsolete
)


def is_tombstone(record: ConsumerRecord) -> bool:
    """Whether the record says that something is gone, and so nothing about a group that is there."""
    return None in record[:2]


# -- values ----------------------------------------------------------------------------------------------


def _read(value: bytes | None, read: Callable[[Place], T]) -> T | None:
    return read_value(value, lambda place, _version: read(place), _NEWEST_VALUE, _FLEXIBLE)


def _epoch_and_hash(place: Place) -> GroupEpoch:
    epoch, tags = place.number(4), place.tags()
    metadata_hash = tags.get(_TAG_OF_HASH, bytes(_HASH_BYTES))
    if len(metadata_hash) != _HASH_BYTES:
        raise FrameError(f"a hash of {len(metadata_hash)} bytes, and not of {_HASH_BYTES}")
    return GroupEpoch(epoch, int.from_bytes(metadata_hash))


def _assignment_epoch(place: Place) -> int:
    epoch = place.number(4)
    place.skip_tags()
    return epoch


def _facts(place: Place) -> MemberFacts:
    instance_id, _rack_id = text_or_none(place), text_or_none(place)
    client_id, client_host = text(place), text(place)
    topics = _texts(place)
    pattern = text_or_none(place)
    rebalance_timeout_ms = place.number(4)
    server_assignor = text_or_none(place)
    classic = place.tags().get(_TAG_OF_CLASSIC)
    return MemberFacts(
        client_id=client_id,
        client_host=client_host,
        topics=topics,
        rebalance_timeout_ms=rebalance_timeout_ms,
        group_instance_id=instance_id,
        pattern=pattern or "",
        server_assignor=server_assignor,
        session_timeout_ms=None if classic is None else _session_timeout_ms(classic),
    )


def _session_timeout_ms(classic: bytes) -> int | None:
    """The session timeout of a member that speaks the classic protocol."""
    place = Place(classic, is_flexible=True)
    # A structure that may be null has a number before it, which is 0 if it is. Kafka writes that, and has
    # another default.
    return limited_ms(place.number(4)) if place.varint() else None


def _target(place: Place) -> ById:
    target = _partitions(place)
    place.skip_tags()
    return target


def _share(place: Place) -> tuple[int, int, ById, ById]:
    epoch, _previous_epoch, state = place.number(4), place.number(4), place.number(1)
    assigned, pending = _partitions(place), _partitions(place)
    place.skip_tags()
    return epoch, state, assigned, pending


def _partitions(place: Place) -> ById:
    found: ById = {}
    for _ in range(place.count()):
        start = place.at
        place.skip(UUID_BYTES)
        partitions = found.setdefault(uuid_of(place.since(start)), set())
        partitions.update(place.number(4) for _ in range(place.count()))
        # Since 4.4 tags of partitions that a member has say since which epoch (KIP-1251).
        place.skip_tags()
    return {topic_id: partitions for topic_id, partitions in found.items() if partitions}


def _topics(place: Place) -> tuple[str, ...]:
    topics = _texts(place)
    # The version of the brokers' metadata, and when the pattern was resolved.
    place.skip(2 * 8)
    place.skip_tags()
    return topics


def _texts(place: Place) -> tuple[str, ...]:
    return tuple(text(place) for _ in range(place.count()))


READERS: dict[int, Callable[[Place, bytes | None], ConsumerRecord]] = {
    3: lambda _key, value: _read(value, _epoch_and_hash) or GroupEpoch(None),
    4: lambda _key, _value: Obsolete(),
    5: lambda key, value: MemberRecord(text(key), _read(value, _facts)),
    6: lambda _key, value: AssignmentEpoch(_read(value, _assignment_epoch)),
    7: lambda key, value: MemberTarget(text(key), _read(value, _target)),
    8: lambda key, value: MemberShare(text(key), *(_read(value, _share) or (None, 0, {}, {}))),
    16: lambda key, value: ResolvedPattern(text(key), _read(value, _topics)),
}
"""Read a record, by its kind, from the place in its key behind the group's id. They raise `FrameError`."""
