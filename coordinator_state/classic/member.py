"""One member of a classic group as plain data.

Kafka keeps parked requests in callbacks and sessions in timers. Here both are data (`ReplyTo`, deadlines),
because the answer may come many batches or a restart after the request.

Source: org.apache.kafka.coordinator.group.classic.ClassicGroupMember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.requests import Protocol
from group_coordinator.coordinator_state.responses import ReplyTo

if TYPE_CHECKING:
    from collections.abc import Iterable

_MEMBER_FRAME_BYTES = 200
"""Bytes of a member's field names and numbers in a picture; more than the names of a small member."""


class StoredProtocol(msgspec.Struct, frozen=True, array_like=True):
    """A `Protocol` as the state keeps it: positional, so that names are not stored per member."""

    name: str
    metadata: bytes


class Member(msgspec.Struct, kw_only=True, array_like=True):
    """One member. Times are in ms; a deadline is a point of log time, None if there is none.

    New fields go to the end and have defaults: states written before must still be readable.
    """

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[StoredProtocol, ...]
    """The protocols that the member offers, in its order of preference."""
    assignment: bytes = b""
    is_new: bool = True
    """True until the member's first join phase is over: until then it has no id to send heartbeats with."""
    session_deadline_ms: int | None = None
    awaiting_join: ReplyTo | None = None
    """The parked join, if there is one."""
    awaiting_sync: ReplyTo | None = None
    """The parked sync, if there is one."""
    pending_sync: bool = False
    """True from the end of a join phase until the member's sync arrives."""
    group_instance_id: str | None = None
    """The name that a static member keeps over restarts (KIP-345); None for a dynamic member."""
    is_behind: bool = False
    """True from the start of a generation until the member shows that it knows of it."""
    join_request_id: str = ""
    """The request that a static member was given its id for."""
    untold_until_ms: int = 0
    """Until then it is not told that its session has nearly expired (`near_expiry.py`)."""

    @property
    def is_parked(self) -> bool:
        """Whether it waits for the answer to a join or a sync."""
        return self.awaiting_join is not None or self.awaiting_sync is not None

    @property
    def lasting_id(self) -> str:
        """The id that it keeps over restarts if it is static, else its member id."""
        return self.group_instance_id or self.member_id

    def matches(self, protocols: Iterable[Protocol]) -> bool:
        """Whether `protocols` are what the member offered before: same names, order and bytes."""
        return self.protocols == stored(protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """The subscription under `protocol_name`; empty if it is not offered."""
        return next((p.metadata for p in self.protocols if p.name == protocol_name), b"")

    @property
    def protocol_names(self) -> list[str]:
        """The names offered, in order; a name given twice counts once."""
        return names_of(self.protocols)

    @property
    def size(self) -> int:
        """Bytes that this member adds to the stored group.

        To one record about the group it adds at most twice that (base64), its assignment aside.
        """
        # A static member's instance id also stands in the index of static members.
        own = (self.member_id, self.client_id, self.client_host, self.group_instance_id or "")
        names = (*own, *(each.name for each in self.protocols))
        metadata = sum(len(each.metadata) for each in self.protocols)
        return _MEMBER_FRAME_BYTES + len(msgspec.json.encode(names)) + metadata


def names_of(protocols: Iterable[Protocol | StoredProtocol]) -> list[str]:
    """The names of `protocols`, in order, each once."""
    return list(dict.fromkeys(protocol.name for protocol in protocols))


def stored(protocols: Iterable[Protocol]) -> tuple[StoredProtocol, ...]:
    """`protocols` in the form the state keeps."""
    return tuple(StoredProtocol(protocol.name, protocol.metadata) for protocol in protocols)
