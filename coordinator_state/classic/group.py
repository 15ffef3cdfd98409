"""A classic group as plain data, with the bookkeeping that keeps the data consistent.

A group is one serialisable value. The rules that change it are in the handlers.

Source: org.apache.kafka.coordinator.group.classic.ClassicGroup.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from group_coordinator.coordinator_state.classic.member import Member, stored
from group_coordinator.coordinator_state.classic.states import GroupState, transition
from group_coordinator.coordinator_state.consumer_protocol import CONSUMER
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.group import DEADLINES, DeadlineKind
from group_coordinator.coordinator_state.responses import (
    DescribedMember,
    GroupPicture,
    JoinGroupMember,
    PicturedMember,
    ReplyTo,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.requests import OffsetCommitRequest, Protocol

_COMMIT_KEEPS_SESSION = frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE})


class ClassicGroup(msgspec.Struct, kw_only=True, array_like=True):
    """One group of the classic protocol (a `group.Group`). Times are in ms of log time.

    New fields go to the end and have defaults: states written before must still be readable.
    """

    KIND: ClassVar[str] = "classic"

    group_id: str
    now_ms: int
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
    num_awaiting_join: int = 0
    num_pending_sync: int = 0
    protocol_counts: dict[str, int] = {}
    bytes_held: int = 0
    static_members: dict[str, str] = {}
    # These five could be counted from the members; but doing so for each joiner would make a join phase
    # quadratic in the members (KAFKA-7142). `protocol_counts`: how many members offer each protocol name;
    # `static_members`: which member id an instance id stands for.
    subscribed_topics: tuple[str, ...] | None = None
    """The topics that members of the last completed generation read, sorted; None if not known."""
    offsets: bytes = b""
    rebalance_since_ms: int | None = None
    """When the group was last Stable or Empty; None while it is ..."""
    rebalance_cause: RebalanceCause | None = None
    """... and why it has not been since."""
    place: int = 0
    is_ahead: bool = False
    pictured: int = 0
    clocks: dict[int, int] = {}

    @classmethod
    def new(cls, group_id: str, now_ms: int) -> Self:
        """An Empty group that begins at `now_ms`."""
        return cls(group_id=group_id, now_ms=now_ms, state_timestamp_ms=now_ms)

    def seal(self) -> None:
        """Nothing of it is read apart."""

    # -- its state -------------------------------------------------------------------------------

    def move_to(self, target: GroupState) -> None:
        """Move along an arrow of the state diagram, now."""
        self.previous_state, self.state = self.state, transition(self.state, target)
        self.state_timestamp_ms = self.now_ms

    def die(self) -> None:
        """Move to Dead, and drop what only a group needs that goes on."""
        self.move_to(GroupState.DEAD)
        self.pending_members.clear()
        self.cleanup_deadline_ms = self.subscribed_topics = None

    # -- members ---------------------------------------------------------------------------------

    def add_member(self, member: Member, protocol_type: str) -> None:
        """Add `member`. The first member sets the protocol type and becomes the leader."""
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
        """Remove a member. If it was the leader, the member that joined first becomes the leader."""
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
        """Give `member` another id, client id and host; keep everything else."""
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
        """Park a join. It replaces an earlier one of the member, whose sender has given up on it."""
        if member.awaiting_join is None:
            self.num_awaiting_join += 1
        member.awaiting_join = reply_to

    def take_parked_join(self, member: Member) -> ReplyTo | None:
        """Take the parked join, to be answered now; None if there is none."""
        reply_to, member.awaiting_join = member.awaiting_join, None
        if reply_to is not None:
            self.num_awaiting_join -= 1
        return reply_to

    def take_parked_sync(self, member: Member) -> ReplyTo | None:
        """Take the parked sync, to be answered now; None if there is none."""
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

    # -- questions that are asked of every kind of group -----------------------------------------

    @property
    def is_dead(self) -> bool:
        """Whether it is deleted."""
        return self.state is GroupState.DEAD

    @property
    def is_empty(self) -> bool:
        """Whether it has no members that have joined."""
        return self.state is GroupState.EMPTY

    @property
    def is_unused(self) -> bool:
        """Whether it has no members, and no id is out that one could join with."""
        return self.is_empty and not self.pending_members

    def validate_member(
        self, member_id: str, group_instance_id: str | None, generation_id: int | None = None
    ) -> Errors:
        """Whether `member_id` is a member, and, if given, `generation_id` the current generation.

        With an instance id, `member_id` must also be the id that the instance id stands for. Another member
        id belongs to an older run of the same program, which must not go on. An id that was handed out but
        has not joined is not a member yet.

        Source: ClassicGroup.validateMember of Apache Kafka 4.
        """
        if group_instance_id is not None:
            if group_instance_id not in self.static_members:
                return Errors.UNKNOWN_MEMBER_ID
            if self.static_members[group_instance_id] != member_id:
                return Errors.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return Errors.UNKNOWN_MEMBER_ID
        if generation_id is not None and generation_id != self.generation_id:
            return Errors.ILLEGAL_GENERATION
        return Errors.NONE

    def may_commit(self, request: OffsetCommitRequest) -> Errors:
        """Whether its sender may commit. In an empty group anybody may, without a generation."""
        if request.generation_id < 0 and self.is_empty:
            return Errors.NONE
        # The member id "" of a sender without a generation is nobody's, as it should be.
        error = self.validate_member(request.member_id, request.group_instance_id, request.generation_id)
        if error is Errors.NONE and self.state is GroupState.COMPLETING_REBALANCE:
            # It knows of the generation, and so that it may not go on before it has synced.
            return Errors.REBALANCE_IN_PROGRESS
        return error

    def may_fetch(self, _member_id: str | None, _member_epoch: int) -> Errors:
        """Anybody may."""
        return Errors.NONE

    def may_delete_offsets(self) -> tuple[Errors, str | None]:
        """Whether the members' topics are known: there are no members, or they are Kafka's consumers."""
        if self.is_empty or self.protocol_type == CONSUMER:
            return Errors.NONE, None
        return Errors.NON_EMPTY_GROUP, "what its members use is only known of protocol type consumer"

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member of the last generation reads `topic`; True if that is not known."""
        if self.is_empty:
            return False
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        place = bisect_left(self.subscribed_topics, topic)
        return self.subscribed_topics[place : place + 1] == (topic,)

    def unused_since_ms(self, topic: str, commit_timestamp_ms: int) -> int | None:
        """The time since which no member has used an offset of `topic`; None while one does.

        In a group without members, it is the time when the last one left, or the commit if there never was
        one. In a group with members it is the commit, if they are Kafka's consumers and read other topics
        (KIP-211). A group that rebalances uses all topics (KAFKA-13636).
        """
        is_known = self.state is GroupState.STABLE and self.protocol_type == CONSUMER
        if self.is_subscribed(topic) or not (self.is_empty or is_known):
            return None
        if self.is_empty and self.protocol_type is not None:
            return self.state_timestamp_ms
        return commit_timestamp_ms

    def heard_from(self, member_id: str) -> Member | None:
        """Note that this member has committed; return it if a commit extends its session."""
        member = self.members.get(member_id)
        if member is None or self.state not in _COMMIT_KEEPS_SESSION:
            return None
        member.is_behind = False
        return member

    # -- deadlines -------------------------------------------------------------------------------

    def deadlines(self) -> Iterator[tuple[int, DeadlineKind, str]]:
        """All deadlines that are set: the time, the kind, and the member id (or "")."""
        for member_id, member in self.members.items():
            if member.session_deadline_ms is not None:
                yield member.session_deadline_ms, DeadlineKind.SESSION, member_id
        for member_id, at_ms in self.pending_members.items():
            yield at_ms, DeadlineKind.PENDING, member_id
        # One by one, because every call of the stateful function asks for all of them.
        if self.join_deadline_ms is not None:
            yield self.join_deadline_ms, DeadlineKind.JOIN, ""
        if self.sync_deadline_ms is not None:
            yield self.sync_deadline_ms, DeadlineKind.SYNC, ""
        if self.cleanup_deadline_ms is not None:
            yield self.cleanup_deadline_ms, DeadlineKind.CLEANUP, ""

    def deadline(self, kind: DeadlineKind, member_id: str) -> int | None:
        """The time of one deadline; None if it is not set."""
        if (field := DEADLINES.get(kind)) is None:
            return self.pending_members.get(member_id)
        at_ms: int | None = getattr(self.members.get(member_id) if member_id else self, field, None)
        return at_ms

    def set_deadline(self, kind: DeadlineKind, member_id: str, at_ms: int | None) -> None:
        """Set one deadline, or clear it with None. An id that was handed out goes with its deadline."""
        if (field := DEADLINES.get(kind)) is not None:
            setattr(self.members[member_id] if member_id else self, field, at_ms)
        elif at_ms is not None:
            self.pending_members[member_id] = at_ms
        else:
            del self.pending_members[member_id]

    # -- questions of the classic protocol -------------------------------------------------------

    @property
    def join_phase_ms(self) -> int:
        """The ms for which the join phase has been running; 0 if there is none."""
        preparing = self.state is GroupState.PREPARING_REBALANCE
        return self.now_ms - self.state_timestamp_ms if preparing else 0

    @property
    def all_members_joined(self) -> bool:
        """Whether all members have joined and no handed-out id is still unused (KAFKA-7909)."""
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
        """The protocol that most members prefer, of those that all members offer.

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
        """All members as tools show them."""
        hidden = {} if with_instances else {"group_instance_id": None}
        return [DescribedMember(**self._description(member) | hidden) for member in self.members.values()]

    def picture(self, _config: GroupConfig) -> GroupPicture:
        """The group as tools show it."""
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
