"""One member of a consumer group as plain data.

Source: org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.consumer.partitions import pack_held, unpack_held
from group_coordinator.coordinator_state.consumer.reconcile import Share
from group_coordinator.coordinator_state.consumer.states import MemberState

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.partitions import Held

_FRAME_BYTES = 300
"""Bytes of a member's field names and numbers in a picture; more than those of a small one."""
_DIGEST_BYTES, _DIGESTS = 8, 4


class ConsumerMember(msgspec.Struct, kw_only=True, array_like=True):
    """One member. Times are in ms; a deadline is a point of log time, None if there is none.

    Every heartbeat reads all members' numbers. Only a rebalance reads targets and partitions, so they stay
    bytes until then.
    New fields go to the end and have defaults: states written before must still be readable.
    """

    member_id: str
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    epoch: int = 0
    """-2 while a static member is away."""
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    session_deadline_ms: int | None = None
    revocation_deadline_ms: int | None = None
    revocation_epoch: int = 0
    """The epoch in which it was told to give up something. In another one the deadline means nothing."""
    subscription: int = -1
    """The number of its topics in `Subscriptions`; negative: none yet."""
    target: bytes = b""
    """Its part of the target, as `partitions.pack` writes it."""
    assigned: bytes = b""
    """Its partitions, as `partitions.pack_held` writes them."""
    pending: bytes = b""
    """Those that it has been told to give up, and may still have; in the same form."""
    group_instance_id: str | None = None
    rack_id: str | None = None
    server_assignor: str | None = None
    untold_until_ms: int = 0
    """Until then it is not told that its session has nearly expired (`near_expiry.py`)."""
    said_by: bytes = b""
    """Digests of the ids of the newest requests in which it has said more than that it is alive."""

    def has_said(self, request_id: str) -> bool:
        """Note that this request says something; return whether the log had that one before.

        The log has a request twice if a write was tried again. The copy says what was so when it was sent. It
        may come after the next requests, and nobody waits for its answer.
        """
        digest = blake2b(request_id.encode(), digest_size=_DIGEST_BYTES).digest()
        digests = [self.said_by[at : at + _DIGEST_BYTES] for at in range(0, len(self.said_by), _DIGEST_BYTES)]
        if digest in digests:
            return True
        self.said_by = b"".join([*digests, digest][-_DIGESTS:])
        return False

    @property
    def is_parked(self) -> bool:
        """No request of this protocol waits for others."""
        return False

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that left, and may come back."""
        return self.epoch < 0

    @property
    def held(self) -> Held:
        """Its partitions, and since which epoch it has each."""
        return unpack_held(self.assigned)

    @property
    def share(self) -> Share:
        """Its partitions, and how far it is on its way to its target."""
        return Share(self.epoch, self.previous_epoch, self.state, self.held, unpack_held(self.pending))

    @share.setter
    def share(self, share: Share) -> None:
        self.epoch, self.previous_epoch, self.state = share.epoch, share.previous_epoch, share.state
        self.assigned, self.pending = pack_held(share.assigned), pack_held(share.pending)

    @property
    def size(self) -> int:
        """Bytes that it adds to the group's picture at most, without its topics and partitions."""
        # An instance id also stands in the index of static members.
        names = (
            *(self.member_id, self.client_id, self.client_host, self.group_instance_id or ""),
            *(self.rack_id or "", self.server_assignor or ""),
        )
        return _FRAME_BYTES + len(msgspec.json.encode(names))
