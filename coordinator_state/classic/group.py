"""A group and its members as plain data, with the bookkeeping that keeps the data consistent.

A group is one serialisable value: what Kafka keeps in callbacks and timers - who waits for an answer,
when a session ends - is data here (`ReplyTo`, deadlines), because an answer may be given many batches,
or a restart, after the question. The rules of the protocol are not here but in the handlers.

Source: org.apache.kafka.coordinator.group.classic.ClassicGroup and ClassicGroupMember.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.requests import Protocol, ReplyTo
from group_coordinator.coordinator_state.responses import (
    DescribedMember,
    GroupPicture,
    JoinGroupMember,
    PicturedMember,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Group", "Member", "names_of", "stored"]

_MEMBER_FRAME_BYTES = 200
"""What a member's field names and numbers take in a picture; they outweigh the names of a small member."""


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
    """What the member offers, in its order of preference."""
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
    """True from the begin of a generation until the member shows that it has heard of it."""
    join_request_id: str = ""
    """The request that a static member was given its id for."""

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
        # A static member's instance id stands in the index of static members, too.
        own = (self.member_id, self.client_id, self.client_host, self.group_instance_id or "")
        names = (*own, *(each.name for each in self.protocols))
        metadata = sum(len(each.metadata) for each in self.protocols)
        return _MEMBER_FRAME_BYTES + len(msgspec.json.encode(names)) + metadata


class Group(msgspec.Struct, kw_only=True, array_like=True):
    """One group. Times are in ms of log time.

    New fields go to the end and have defaults: states written before must still be readable.
    """

    group_id: str
    now_ms: int
    """How far the group has been advanced. Log time does not go back: a record with an earlier time
    (a broker's clock was set back) is handled as of here."""
    state_timestamp_ms: int
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.DEAD
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = {}
    pending_members: dict[str, int] = {}
    """Ids handed out and not joined yet, with the deadline by which they must."""
    join_deadline_ms: int | None = None
    """End of the join phase."""
    initial_delay_ms: int = 0
    """Length of the running round of the initial delay (KIP-134) ..."""
    initial_remaining_ms: int = 0
    """... and what may still be added to it, if members keep coming."""
    new_member_added: bool = False
    """A member came during the running round of the initial delay."""
    sync_deadline_ms: int | None = None
    """By then every member must have synced (KAFKA-12890)."""
    cleanup_deadline_ms: int | None = None
    """When to look for what nobody uses: offsets, and the group itself if it is Empty."""
    num_awaiting_join: int = 0
    num_pending_sync: int = 0
    protocol_counts: dict[str, int] = {}
    bytes_held: int = 0
    static_members: dict[str, str] = {}
    # These five could be counted from the members; but doing so for each joiner would make a join phase
    # quadratic in the members (KAFKA-7142). `protocol_counts`: how many members offer each protocol name;
    # `static_members`: which member id an instance id stands for.
    subscribed_topics: tuple[str, ...] | None = None
    """What the members of the last completed generation read, sorted; None if that is not known."""
    offsets: bytes = b""
    """What is committed, as `CommittedOffsets` reads and writes it."""
    rebalance_since_ms: int | None = None
    """When the group was last Stable or Empty; None while it is ..."""
    rebalance_cause: RebalanceCause | None = None
    """... and why it has not been since."""

    # -- members ---------------------------------------------------------------------------------

    def add_member(self, member: Member, protocol_type: str) -> None:
        """Take `member` in; the first one sets the protocol type and becomes leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.pending_members.pop(member.member_id, None)
        self._count(member, 1)

    def remove_member(self, member: Member) -> None:
        """Take a member out; if it led, the member that has been in longest leads."""
        del self.members[member.member_id]
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if member.awaiting_join is not None:
            self.num_awaiting_join -= 1
        self._count(member, -1)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.set_pending_sync(member, pending=False)

    def replace_static_member(
        self, member: Member, new_member_id: str, client_id: str, client_host: str
    ) -> None:
        """Let `member` go on under another id and at another place, all else being kept."""
        assert member.group_instance_id is not None  # noqa: S101 - a bug of ours if it is
        del self.members[member.member_id]
        self._count(member, -1)
        if self.leader == member.member_id:
            self.leader = new_member_id
        member.member_id = new_member_id
        member.client_id, member.client_host = client_id, client_host
        self.members[new_member_id] = member
        self.static_members[member.group_instance_id] = new_member_id
        self._count(member, 1)

    def static_member(self, group_instance_id: str | None) -> Member | None:
        """The member behind an instance id; None if there is none."""
        member_id = self.static_members.get(group_instance_id or "")
        return None if member_id is None else self.members[member_id]

    def set_pending_sync(self, member: Member, *, pending: bool) -> None:
        """Note that `member` still has to sync in this generation, or no longer has to."""
        self.num_pending_sync += pending - member.pending_sync
        member.pending_sync = pending

    def update_protocols(self, member: Member, protocols: Iterable[Protocol]) -> None:
        """Replace what `member` offers."""
        self._count(member, -1)
        member.protocols = stored(protocols)
        self._count(member, 1)

    def park_join(self, member: Member, reply_to: ReplyTo) -> None:
        """Keep a join unanswered. An earlier one of the member is forgotten: its sender gave up on it."""
        if member.awaiting_join is None:
            self.num_awaiting_join += 1
        member.awaiting_join = reply_to

    def take_parked_join(self, member: Member) -> ReplyTo | None:
        """The parked join, to be answered now; None if there is none."""
        reply_to, member.awaiting_join = member.awaiting_join, None
        if reply_to is not None:
            self.num_awaiting_join -= 1
        return reply_to

    def take_parked_sync(self, member: Member) -> ReplyTo | None:
        """The parked sync, to be answered now; None if there is none."""
        reply_to, member.awaiting_sync = member.awaiting_sync, None
        return reply_to

    def _count(self, member: Member, sign: int) -> None:
        for name in member.protocol_names:
            count = self.protocol_counts.get(name, 0) + sign
            if count:
                self.protocol_counts[name] = count
            else:
                del self.protocol_counts[name]
        self.bytes_held += sign * member.size

    # -- questions -------------------------------------------------------------------------------

    @property
    def join_phase_ms(self) -> int:
        """For how long the join phase has been running; 0 if there is none."""
        preparing = self.state is GroupState.PREPARING_REBALANCE
        return self.now_ms - self.state_timestamp_ms if preparing else 0

    @property
    def all_members_joined(self) -> bool:
        """Whether the join phase waits for nobody, pending ids included (KAFKA-7909)."""
        return self.num_awaiting_join == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members; 0 without members.

        Never less than 0: a deadline that lies before now would turn back the time.
        """
        return max([0, *(member.rebalance_timeout_ms for member in self.members.values())])

    def supports_protocols(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Whether a member that offers these can join: same type, and a name that every member offers."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.protocol_counts.get(protocol.name, 0) == everybody for protocol in protocols
        )

    def select_protocol(self) -> str:
        """The protocol most members prefer among those that all offer.

        Each member votes for the first candidate on its list. On a tie the one that was voted for
        first wins: Kafka leaves that to chance, and chance cannot be replayed.
        """
        everybody = len(self.members)
        candidates = {name for name, count in self.protocol_counts.items() if count == everybody}
        votes = Counter(
            next(protocol.name for protocol in member.protocols if protocol.name in candidates)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def members_for_leader(self, *, with_instances: bool) -> list[JoinGroupMember]:
        """All members with their subscriptions under the chosen protocol."""
        return [
            JoinGroupMember(
                member.member_id,
                member.group_instance_id if with_instances else None,
                member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    def described_members(self, *, with_instances: bool) -> list[DescribedMember]:
        """All members as people and tools may see them."""
        hidden = {} if with_instances else {"group_instance_id": None}
        return [DescribedMember(**self._description(member) | hidden) for member in self.members.values()]

    def picture(self) -> GroupPicture:
        """The group as people and tools may see it."""
        return GroupPicture(
            group_id=self.group_id,
            state=self.state,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader,
            members=[
                PicturedMember(
                    **self._description(member),
                    session_timeout_ms=member.session_timeout_ms,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                )
                for member in self.members.values()
            ],
            state_timestamp_ms=self.state_timestamp_ms,
        )

    def _description(self, member: Member) -> dict[str, Any]:
        # A rebalance may choose another protocol, so until it is over nothing is said under the last one.
        is_stable = self.state is GroupState.STABLE
        return {
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "member_metadata": member.metadata(self.protocol_name) if is_stable else b"",
            "member_assignment": member.assignment,
        }


def names_of(protocols: Iterable[Protocol | StoredProtocol]) -> list[str]:
    """The names of `protocols`, in order, each once."""
    return list(dict.fromkeys(protocol.name for protocol in protocols))


def stored(protocols: Iterable[Protocol]) -> tuple[StoredProtocol, ...]:
    """`protocols` in the form the state keeps."""
    return tuple(StoredProtocol(protocol.name, protocol.metadata) for protocol in protocols)
