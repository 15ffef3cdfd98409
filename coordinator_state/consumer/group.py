"""A consumer group as plain data, with the bookkeeping that keeps the data consistent (KIP-848).

A group is one serialisable value. The rules that change it are in the handlers.

Source: org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import msgspec

from group_coordinator.coordinator_state.consumer.committing import may_commit, may_fetch
from group_coordinator.coordinator_state.consumer.member import ConsumerMember
from group_coordinator.coordinator_state.consumer.member_index import MemberIndex
from group_coordinator.coordinator_state.consumer.picture import picture_of
from group_coordinator.coordinator_state.consumer.states import GroupState, MemberState
from group_coordinator.coordinator_state.consumer.subscriptions import Subscriptions
from group_coordinator.coordinator_state.consumer.topic_table import TopicTable
from group_coordinator.coordinator_state.consumer_protocol import assignment_of
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.group import DEADLINES, DeadlineKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.consumer.partitions import Held, Partitions
    from group_coordinator.coordinator_state.consumer.reconcile import Share
    from group_coordinator.coordinator_state.consumer.subscriptions import Wanted
    from group_coordinator.coordinator_state.requests import OffsetCommitRequest
    from group_coordinator.coordinator_state.responses import GroupPicture


class ConsumerGroup(msgspec.Struct, kw_only=True, array_like=True, dict=True):
    """One group of the consumer protocol. Times are in ms of log time.

    New fields go to the end and have defaults: states written before must still be readable.
    """

    KIND: ClassVar[str] = "consumer"

    group_id: str
    now_ms: int
    state_timestamp_ms: int
    generation_id: int = 0
    """The group epoch. It grows with each change of members, subscriptions or topics."""
    assignment_epoch: int = 0
    """The group epoch that the targets of all members are of."""
    assigned_at_ms: int | None = None
    """When the targets were computed last; None: never."""
    told_state: GroupState = GroupState.EMPTY
    """The state that the newest event has told."""
    members: dict[str, ConsumerMember] = {}
    static_members: dict[str, str] = {}
    """Which member id an instance id stands for."""
    unsettled: int = 0
    """The number of members that have not come to their target. Counting them for each heartbeat would be
    quadratic in the members."""
    former_hash: bytes = b""
    """States that were written before have a hash of topics here, which nobody reads any more."""
    metadata_changed: bool = False
    """Whether topics that members name have changed since the newest epoch, so that the next heartbeat begins
    another. A hash of them would cost as much as there are topics whenever a member changes its mind."""
    member_bytes: int = 0
    """Bytes of all members and their subscriptions in a picture."""
    assignor: str = ""
    """The assignor that computed the targets."""
    stored_topics: bytes = b""
    stored_subscriptions: bytes = b""
    rebalance_since_ms: int | None = None
    """When the group was last Stable or Empty; None while it is ..."""
    rebalance_cause: RebalanceCause | None = None
    """... and why it has not been since."""
    cleanup_deadline_ms: int | None = None
    offsets: bytes = b""
    is_deleted: bool = False
    place: int = 0
    is_ahead: bool = False
    pictured: int = 0
    clocks: dict[int, int] = {}

    @classmethod
    def new(cls, group_id: str, now_ms: int) -> Self:
        """An Empty group that begins at `now_ms`, with epoch 1."""
        return cls(group_id=group_id, now_ms=now_ms, state_timestamp_ms=now_ms, generation_id=1)

    # -- parts that are read only when they are needed ---------------------------------------------

    @cached_property
    def topics(self) -> TopicTable:
        """The topics that members name, as far as they are known."""
        return TopicTable(self.stored_topics)

    @cached_property
    def subscriptions(self) -> Subscriptions:
        """The topics that members name, and those that their patterns match."""
        return Subscriptions(self.stored_subscriptions)

    @cached_property
    def index(self) -> MemberIndex:
        """All members at once."""
        return MemberIndex(self.members)

    def seal(self) -> None:
        """Put what was read of its stored parts back into them."""
        if "topics" in self.__dict__:
            self.stored_topics = self.topics.encode()
        if "subscriptions" in self.__dict__:
            self.stored_subscriptions = self.subscriptions.encode()

    # -- members ---------------------------------------------------------------------------------

    def add_member(self, member: ConsumerMember) -> None:
        """Add `member`, which has nothing yet, or what one had that it takes the place of."""
        self.members[member.member_id] = member
        self._count(member, 1)

    def remove_member(self, member: ConsumerMember) -> None:
        """Remove a member. Its partitions are nobody's then."""
        del self.members[member.member_id]
        self._count(member, -1)

    def _count(self, member: ConsumerMember, sign: int) -> None:
        if member.group_instance_id is not None and sign > 0:
            self.static_members[member.group_instance_id] = member.member_id
        else:
            self.static_members.pop(member.group_instance_id or "", None)
        self.unsettled += sign * (not self.is_settled(member))
        self.member_bytes += sign * self.size_of(member)
        self.index.count(member, sign)

    def size_of(self, member: ConsumerMember) -> int:
        """Bytes that a member adds to a picture, with its subscription and without its partitions."""
        if member.subscription < 0:
            return member.size
        return member.size + self.subscriptions.size(member.subscription)

    def change_facts(self, member: ConsumerMember, changes: Mapping[str, object]) -> None:
        """Change what is known of a member besides its partitions: fields of `ConsumerMember` by name."""
        self._count(member, -1)
        for name, value in changes.items():
            setattr(member, name, value)
        self._count(member, 1)

    def change_subscription(self, member: ConsumerMember, wanted: Wanted) -> None:
        """Let a member have this subscription. A pattern that nobody had is resolved as its sender says."""
        self.member_bytes -= self.size_of(member)
        is_news = wanted.pattern is not None and wanted.pattern not in self.subscriptions.resolved
        before, member.subscription = member.subscription, self.subscriptions.add(wanted)
        if before >= 0:
            self.subscriptions.drop(before)
        self.member_bytes += self.size_of(member)
        # Somebody may have resolved it for a member that had the same pattern before. That is old.
        self.topics.version += is_news

    def resolve(self, after: Subscriptions) -> bool:
        """Let patterns of members match what they do in `after`; return whether one matches other topics."""
        before, self.subscriptions = self.subscriptions, after
        self.member_bytes += after.bytes_of_members - before.bytes_of_members
        self.topics.version += 1
        return after.matches_others_than(before)

    def change_member(self, member: ConsumerMember, share: Share) -> None:
        """Let a member have this share."""
        before = member.share
        self.unsettled -= not self.is_settled(member)
        member.share = share
        self.unsettled += not self.is_settled(member)
        self.index.change_share(before, share)

    def is_settled(self, member: ConsumerMember) -> bool:
        """Whether a member has come to its target."""
        return member.state is MemberState.STABLE and member.epoch == self.assignment_epoch

    def advance_assignment(self) -> None:
        """Let the targets be those of the group epoch, now."""
        self.assignment_epoch, self.assigned_at_ms = self.generation_id, self.now_ms
        # No member can be at an epoch that begins now.
        self.unsettled = len(self.members)

    @property
    def is_at_rest(self) -> bool:
        """Whether the work is divided for all that the group knows."""
        return self.generation_id == self.assignment_epoch and not self.metadata_changed

    @property
    def bytes_held(self) -> int:
        """Bytes of members, subscriptions and partitions in a picture, at most."""
        return self.member_bytes + self.topics.bytes_held + self.subscriptions.bytes_of_patterns

    # -- questions that are asked of every kind of group -----------------------------------------

    @property
    def state(self) -> GroupState:
        """Its state, which follows from the rest."""
        if self.is_deleted:
            return GroupState.DEAD
        if not self.members:
            return GroupState.EMPTY
        if self.generation_id > self.assignment_epoch:
            return GroupState.ASSIGNING
        return GroupState.RECONCILING if self.unsettled else GroupState.STABLE

    @property
    def is_dead(self) -> bool:
        """Whether it is deleted."""
        return self.is_deleted

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members and not self.is_deleted

    @property
    def is_unused(self) -> bool:
        """Whether it has no members: no id is handed out before it is used."""
        return self.is_empty

    def die(self) -> None:
        """Be deleted, and drop what only a group needs that goes on."""
        self.is_deleted, self.told_state = True, GroupState.DEAD
        self.state_timestamp_ms = self.now_ms
        self.cleanup_deadline_ms = None

    def may_commit(self, request: OffsetCommitRequest) -> Errors:
        """Whether its sender may commit."""
        return may_commit(self, request)

    def may_fetch(self, member_id: str | None, member_epoch: int) -> Errors:
        """Whether this sender may see the offsets."""
        return may_fetch(self, member_id, member_epoch)

    def may_delete_offsets(self) -> tuple[Errors, str | None]:
        """Always: it is known which topics its members read."""
        return Errors.NONE, None

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member names `topic`, or its pattern matches it."""
        return topic in self.subscriptions.all_names()

    def unused_since_ms(self, topic: str, commit_timestamp_ms: int) -> int | None:
        """The time of the commit, unless a member names the topic; whether the group is Empty or not.

        Source: ConsumerGroup.offsetExpirationCondition of Apache Kafka 4.
        """
        return None if self.is_subscribed(topic) else commit_timestamp_ms

    def heard_from(self, _member_id: str) -> None:
        """A commit extends no session."""
        return

    # -- deadlines -------------------------------------------------------------------------------

    def deadlines(self) -> Iterator[tuple[int, DeadlineKind, str]]:
        """All deadlines that are set: the time, the kind, and the member id (or "")."""
        for member_id, member in self.members.items():
            if member.session_deadline_ms is not None:
                yield member.session_deadline_ms, DeadlineKind.SESSION, member_id
            if member.revocation_deadline_ms is not None:
                yield member.revocation_deadline_ms, DeadlineKind.REVOCATION, member_id
        if self.cleanup_deadline_ms is not None:
            yield self.cleanup_deadline_ms, DeadlineKind.CLEANUP, ""

    def deadline(self, kind: DeadlineKind, member_id: str) -> int | None:
        """The time of one deadline; None if it is not set."""
        holder = self.members.get(member_id) if member_id else self
        at_ms: int | None = getattr(holder, DEADLINES[kind], None)
        return at_ms

    def set_deadline(self, kind: DeadlineKind, member_id: str, at_ms: int | None) -> None:
        """Set one deadline, or clear it with None."""
        setattr(self.members[member_id] if member_id else self, DEADLINES[kind], at_ms)

    # -- what is told ----------------------------------------------------------------------------

    def assignment_bytes(self, partitions: Held | Partitions) -> bytes:
        """Partitions in the form of Kafka's consumers."""
        return assignment_of(self.topics.by_name(partitions))

    def picture(self, config: GroupConfig) -> GroupPicture:
        """The group as tools show it."""
        return picture_of(self, config)
