"""A group at the brokers as it is stored between two batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.brokers_log.consumer.state import WatchedConsumers
from group_coordinator.coordinator_state.responses import GroupPicture

if TYPE_CHECKING:
    from collections.abc import Sized

SCHEMA_VERSION = 1
"""Version of the stored state. Fields that are added at the end, with defaults, need no new one."""


class Untold(msgspec.Struct, frozen=True, array_like=True):
    """A commit that no event has told of yet. `cause`: its record, for the event's id."""

    topic: str
    partition: int
    at_ms: int
    cause: str


class Gone(msgspec.Struct, frozen=True, array_like=True):
    """The record of a group was deleted, and it had members or offsets.

    Kafka deletes no such group. It goes on as one of the other protocol, as the next record says. If there is
    no such record, it is gone as of this time. `cause`: the record, for the event's id.
    """

    cause: str
    at_ms: int


class ObservedGroup(msgspec.Struct, array_like=True):
    """All that is known of one group. Its size depends on its members and offsets, not on its commits.

    Times but `read_ms` are in ms of log time: record timestamps, which do not go back.
    """

    group_id: str
    now_ms: int = 0
    place: int = 0
    """The place in the log of its newest change (`coordinator_state/newest.py`)."""
    read: dict[int, int] = {}
    """The newest offset that was read, by partition. A record that comes again changes nothing."""
    picture: GroupPicture | None = None
    """The group as it was last written down as one of the classic protocol; None if it is none."""
    is_of_newer_protocol: bool = False
    """Whether there are records of it that are not read here: of share groups and Streams."""
    offsets: bytes = b""
    """Its committed offsets, as `CommittedOffsets` reads and writes them."""
    untold: list[Untold] = []
    """The newest commit of each partition since the last event about it, in the order of the log."""
    tell_ms: int | None = None
    """When an event tells of these."""
    simple_since_ms: int = 0
    """Since when it has had offsets, although it was not written down."""
    consumers: WatchedConsumers | None = None
    """The group as one of the consumer protocol; None if it is none."""
    gone: Gone | None = None
    """Set between its deletion and what says how that is meant."""
    read_ms: int = 0
    """The batch time at which its newest record was read."""

    @property
    def generation_id(self) -> int:
        """Its generation, or its epoch; 0 if it has none."""
        if self.consumers is not None:
            return self.consumers.epoch
        return 0 if self.picture is None else self.picture.generation_id

    @property
    def members(self) -> Sized | None:
        """Its members; None if nobody has told of them."""
        if self.consumers is not None:
            return self.consumers.members if self.consumers.told_state else None
        return None if self.picture is None else self.picture.members

    @property
    def committer(self) -> str | None:
        """The member that commits: none, which is empty, in an Empty group; None if it is not known."""
        return "" if self.members is not None and not self.members else None

    def shown(self) -> GroupPicture | None:
        """The group as tools show it; None if there is no group, or nothing is told of it yet."""
        if self.consumers is not None and self.consumers.told_state:
            return self.consumers.picture(self.group_id)
        return self.picture


_encoder = msgspec.msgpack.Encoder()
_states = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_groups = msgspec.msgpack.Decoder(ObservedGroup)


def encode_group(group: ObservedGroup) -> bytes:
    """The group as it is stored."""
    return _encoder.encode((SCHEMA_VERSION, group))


def decode_group(state: bytes) -> ObservedGroup:
    """The stored group; `ValueError` if another version of this program has written it."""
    version, group = _states.decode(state)
    if version != SCHEMA_VERSION:
        raise ValueError(f"stored state has schema version {version}, this program reads {SCHEMA_VERSION}")
    return _groups.decode(group)
