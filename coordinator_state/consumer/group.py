"""A consumer group as plain data, with the bookkeeping that keeps the data consistent (KIP-848).

A group is one serialisable value. The rules that change it are in the handlers.

Source: org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import msgspec

from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.consumer.member import ConsumerMember
from group_coordinator.coordinator_state.consumer.partitions import pack, unpack
from group_coordinator.coordinator_state.consumer.states import GroupState, MemberState
from group_coordinator.coordinator_state.consumer.subscriptions import Subscriptions
from group_coordinator.coordinator_state.consumer.topic_table import TopicTable
from group_coordinator.coordinator_state.consumer_protocol import CONSUMER, assignment_of, subscription_of
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.group import DeadlineKind
from group_coordinator.coordinator_state.responses import GroupPicture, KnownPattern, PicturedMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.consumer.partitions import Held, Partitions
    from group_coordinator.coordinator_state.consumer.reconcile import Share
    from group_coordinator.coordinator_state.consumer.subscriptions import Pattern, Resolution, Wanted
    from group_coordinator.coordinator_state.requests import OffsetCommitRequest

__all__ = ["ConsumerGroup", "both", "told_patterns"]

_EPOCHS_VERSION = 9
"""The first version of OffsetCommit in which a generation may be a member epoch."""


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
    metadata_hash: bytes = b""
    """`TopicTable.hash_of` the topics that members named at the newest epoch ..."""
    metadata_changed: bool = False
    """... and whether it may be another one now, so that the next heartbeat has to look."""
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
    def _holders(self) -> Counter[tuple[int, int]]:
        """How many members have each partition, assigned or pending: none or one."""
        holders: Counter[tuple[int, int]] = Counter()
        for member in self.members.values():
            holders.update(_pairs(member.share))
        return holders

    @cached_property
    def _votes(self) -> Counter[str]:
        """How many members name each assignor."""
        return Counter(each.server_assignor for each in self.members.values() if each.server_assignor)

    @cached_property
    def targets(self) -> dict[str, Partitions]:
        """The targets of all members, whose sets nobody changes. Each assignment reads them all."""
        return {member_id: unpack(member.target) for member_id, member in self.members.items()}

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
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count(member, 1)

    def remove_member(self, member: ConsumerMember) -> None:
        """Remove a member. Its partitions are nobody's then."""
        del self.members[member.member_id]
        if self.static_members.get(member.group_instance_id or "") == member.member_id:
            del self.static_members[member.group_instance_id or ""]
        self._count(member, -1)

    def _count(self, member: ConsumerMember, sign: int) -> None:
        self.unsettled += sign * (not self.is_settled(member))
        self.member_bytes += sign * self.size_of(member)
        self._count_vote(member, sign)
        if "_holders" in self.__dict__:
            for pair in _pairs(member.share):
                self._holders[pair] += sign
        if "targets" in self.__dict__:
            self.targets.pop(member.member_id, None)
            if sign > 0:
                self.targets[member.member_id] = unpack(member.target)

    def _count_vote(self, member: ConsumerMember, sign: int) -> None:
        if member.server_assignor and "_votes" in self.__dict__:
            self._votes[member.server_assignor] += sign

    def size_of(self, member: ConsumerMember) -> int:
        """Bytes that a member adds to a picture, with its subscription and without its partitions."""
        if member.subscription < 0:
            return member.size
        return member.size + self.subscriptions.size(member.subscription)

    def change_facts(self, member: ConsumerMember, changes: Mapping[str, object]) -> None:
        """Change what is known of a member besides its partitions: fields of `ConsumerMember` by name."""
        self.member_bytes -= member.size
        self._count_vote(member, -1)
        if self.static_members.get(member.group_instance_id or "") == member.member_id:
            del self.static_members[member.group_instance_id or ""]
        for name, value in changes.items():
            setattr(member, name, value)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count_vote(member, 1)
        self.member_bytes += member.size

    def change_subscription(self, member: ConsumerMember, wanted: Wanted) -> None:
        """Let a member have this subscription. A pattern that nobody had is resolved as its sender says."""
        self.member_bytes -= self.size_of(member)
        is_news = wanted.pattern is not None and not self.subscriptions.is_known(wanted.pattern)
        before, member.subscription = member.subscription, self.subscriptions.add(wanted)
        if before >= 0:
            self.subscriptions.drop(before)
        self.member_bytes += self.size_of(member)
        # Somebody may have resolved it for a member that had the same pattern before. That is old.
        self.topics.version += is_news

    def resolve(self, resolved: Mapping[Pattern, tuple[str, ...]]) -> bool:
        """Let patterns of members match these topics; return whether a member has other topics then."""
        growth, are_others = self.subscriptions.resolve(resolved)
        self.member_bytes += growth
        self.topics.version += 1
        return are_others

    def change_member(self, member: ConsumerMember, share: Share) -> None:
        """Let a member have this share."""
        before = member.share
        self.unsettled -= not self.is_settled(member)
        member.share = share
        self.unsettled += not self.is_settled(member)
        if "_holders" in self.__dict__:
            for pair in _pairs(before):
                self._holders[pair] -= 1
            for pair in _pairs(share):
                self._holders[pair] += 1

    def is_free(self, number: int, partition: int) -> bool:
        """Whether no member has this partition, neither assigned nor pending."""
        return not self._holders[number, partition]

    def is_settled(self, member: ConsumerMember) -> bool:
        """Whether a member has come to its target."""
        return member.state is MemberState.STABLE and member.epoch == self.assignment_epoch

    def change_targets(self, targets: dict[str, Partitions]) -> list[str]:
        """Let all members have these targets; return the ids of those whose target was another one."""
        before, self.targets = self.targets, targets
        # Most are not only alike, but the very same.
        changed = [it for it in self.members if targets[it] is not before[it] and targets[it] != before[it]]
        for member_id in changed:
            self.members[member_id].target = pack(targets[member_id])
        return changed

    def topics_held(self) -> set[int]:
        """The numbers of the topics that members have partitions of, or are to have."""
        held = {number for member in self.members.values() for number in both(member.share)}
        return held.union(*self.targets.values())

    def advance_assignment(self) -> None:
        """Let the targets be those of the group epoch, now."""
        self.assignment_epoch, self.assigned_at_ms = self.generation_id, self.now_ms
        # No member can be at an epoch that begins now.
        self.unsettled = len(self.members)

    @property
    def is_at_rest(self) -> bool:
        """Whether the work is divided for all that the group knows."""
        return self.generation_id == self.assignment_epoch and not self.metadata_changed

    def existing_topics(self, subscription: int) -> set[int]:
        """The numbers of the topics of a subscription that there are."""
        names = self.subscriptions.names(subscription)
        return {topic.number for topic in self.topics.existing(names)}

    @property
    def bytes_held(self) -> int:
        """Bytes of members, subscriptions and partitions in a picture, at most."""
        return self.member_bytes + self.topics.bytes_held + self.subscriptions.bytes_of_patterns

    def preferred_assignor(self, assignors: Sequence[str]) -> str:
        """The assignor that most members name, of those a first one in `assignors`; that one if none does."""
        votes = self._votes
        return max(assignors, key=lambda name: (votes[name], -assignors.index(name)))

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
        """Whether its sender may commit: with the member's epoch, or with an older one (KIP-1251).

        With an older one, it must have had each of the partitions since then, or before.
        Source: ConsumerGroup.validateOffsetCommit of Apache Kafka 4.4.
        """
        epoch = request.generation_id
        if epoch < 0 and self.is_empty:
            return Errors.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return Errors.UNKNOWN_MEMBER_ID
        if request.version < _EPOCHS_VERSION:
            return Errors.UNSUPPORTED_VERSION
        is_in_time = epoch == member.epoch or (epoch < member.epoch and self._has_since(member, request))
        return Errors.NONE if is_in_time else Errors.STALE_MEMBER_EPOCH

    def _has_since(self, member: ConsumerMember, request: OffsetCommitRequest) -> bool:
        held: dict[str, dict[int, int]] = {}
        for number, partitions in sorted(both(member.share).items()):
            held.setdefault(self.topics.named(number).name, {}).update(partitions)
        for topic in request.topics:
            since = held.get(topic.name, {})
            for each in topic.partitions:
                if since.get(each.partition_index, INT32_MAX) > request.generation_id:
                    return False
        return True

    def may_fetch(self, member_id: str | None, member_epoch: int) -> Errors:
        """Whether this sender may see the offsets: anybody who does not claim to be a member, or a member.

        Source: ConsumerGroup.validateOffsetFetch of Apache Kafka 4.
        """
        if member_id is None:
            return Errors.NONE if member_epoch < 0 else Errors.UNKNOWN_SERVER_ERROR
        member = self.members.get(member_id)
        if member is None:
            return Errors.UNKNOWN_MEMBER_ID
        return Errors.NONE if member_epoch == member.epoch else Errors.STALE_MEMBER_EPOCH

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
        if kind is DeadlineKind.CLEANUP:
            return self.cleanup_deadline_ms
        member = self.members.get(member_id)
        if member is None:
            return None
        is_session = kind is DeadlineKind.SESSION
        return member.session_deadline_ms if is_session else member.revocation_deadline_ms

    def set_deadline(self, kind: DeadlineKind, member_id: str, at_ms: int | None) -> None:
        """Set one deadline, or clear it with None."""
        if kind is DeadlineKind.CLEANUP:
            self.cleanup_deadline_ms = at_ms
        elif kind is DeadlineKind.SESSION:
            self.members[member_id].session_deadline_ms = at_ms
        else:
            self.members[member_id].revocation_deadline_ms = at_ms

    # -- what is told ----------------------------------------------------------------------------

    def assignment_bytes(self, partitions: Held | Partitions) -> bytes:
        """Partitions in the form of Kafka's consumers."""
        return assignment_of(self.topics.by_name(partitions))

    def picture(self, config: GroupConfig) -> GroupPicture:
        """The group as tools show it."""
        numbers = {member.subscription for member in self.members.values()}
        subscriptions = {number: subscription_of(self.subscriptions.names(number)) for number in numbers}
        return GroupPicture(
            group_id=self.group_id,
            state=self.state,
            generation_id=self.generation_id,
            protocol_type=CONSUMER,
            protocol_name=self.assignor,
            leader=None,
            members=[
                PicturedMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=subscriptions[member.subscription],
                    member_assignment=self.assignment_bytes(both(member.share)),
                    session_timeout_ms=config.group_consumer_session_timeout_ms,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    member_epoch=member.epoch,
                    target_assignment=self.assignment_bytes(unpack(member.target)),
                )
                for member in self.members.values()
            ],
            state_timestamp_ms=self.state_timestamp_ms,
            group_type=self.KIND,
            assignment_epoch=self.assignment_epoch,
            metadata_version=self.topics.version,
            topics=self.topics.known(self.subscriptions.all_names()),
            patterns=told_patterns(self.subscriptions.resolutions) or msgspec.UNSET,
        )


def told_patterns(resolutions: Iterable[Resolution]) -> list[KnownPattern]:
    """Patterns of members as pictures and events have them."""
    return [
        KnownPattern(
            pattern=each.pattern.text,
            user=each.pattern.user,
            topics=None if each.topics is None else list(each.topics),
        )
        for each in resolutions
    ]


def both(share: Share) -> Held:
    """All that a member may still have: what is assigned, and what it has been told to give up."""
    held = {number: dict(partitions) for number, partitions in share.assigned.items()}
    for number, partitions in share.pending.items():
        held.setdefault(number, {}).update(partitions)
    return held


def _pairs(share: Share) -> Iterator[tuple[int, int]]:
    for held in (share.assigned, share.pending):
        for number, partitions in held.items():
            for partition in partitions:
                yield number, partition
