"""A group of the consumer protocol at the brokers, as far as its records tell."""

from __future__ import annotations

import struct
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Self

import msgspec

from group_coordinator.brokers_log.consumer.records import MemberFacts
from group_coordinator.brokers_log.values import is_writable
from group_coordinator.coordinator_state.consumer.partitions import pack, unpack
from group_coordinator.coordinator_state.consumer.states import MemberState
from group_coordinator.coordinator_state.consumer_protocol import (
    CONSUMER,
    assignment_of,
    subscription_of,
    topics_of,
)
from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.responses import GroupPicture, KnownPattern, PicturedMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from group_coordinator.brokers_log.consumer.records import ById
    from group_coordinator.coordinator_state.consumer.partitions import Partitions

AWAY_EPOCH = -2
"""The epoch of a static member that left for a while."""

_SPARE_TOPICS = 10


class WatchedMember(msgspec.Struct, array_like=True):
    """A member. Partitions are bytes as `partitions.pack` writes them."""

    member_id: str
    facts: MemberFacts | None = None
    """None: they were not written down yet, as far as was read. Until then nobody is told of the member."""
    epoch: int = 0
    state: int = MemberState.STABLE
    target: bytes = b""
    assigned: bytes = b""
    pending: bytes = b""
    is_leaving: bool = False
    """Its record is gone. The next records say whether it went, restarted, or its group is changing."""

    @property
    def held(self) -> Partitions:
        """All that it may still have."""
        held = unpack(self.assigned)
        for topic, partitions in unpack(self.pending).items():
            held.setdefault(topic, set()).update(partitions)
        return held


class Topic(msgspec.Struct, frozen=True, array_like=True):
    """A topic that members have or are to have. The place in the list of all is its number."""

    topic_id: str
    name: str = ""
    """Empty: nobody could tell it. The id takes its place."""


class News(msgspec.Struct, frozen=True, array_like=True):
    """Something that makes a new epoch, in words, and the cause that it is."""

    cause: RebalanceCause
    what: str
    at_ms: int


class Rebalance(msgspec.Struct, frozen=True, array_like=True):
    """The time since when a group was not at rest; None: records of it may be missing. Its first cause."""

    since_ms: int | None
    cause: RebalanceCause | None


class WatchedConsumers(msgspec.Struct, array_like=True, dict=True):
    """The group. Its size depends on its members, topics and partitions."""

    state_timestamp_ms: int
    epoch: int = 0
    assignment_epoch: int = 0
    metadata_hash: int = 0
    members: dict[str, WatchedMember] = {}
    patterns: dict[str, tuple[str, ...]] = {}
    topics: list[Topic] = []
    told_state: str = ""
    """The state that the newest event has told. Empty: nothing was told, as the epoch was not read yet."""
    rebalance: Rebalance | None = None
    news: list[News] = []
    """All that may make the next epoch."""
    retargeted: list[str] = []
    """The members that have got another target since the newest assignment."""
    kept_topics: int = 0
    """How many topics there were after some were forgotten last."""

    @classmethod
    def of_classic(cls, picture: GroupPicture) -> Self:
        """The group that goes on as one of the consumer protocol, with its members."""
        epoch = picture.generation_id if picture.members else 0
        return cls(
            state_timestamp_ms=picture.state_timestamp_ms,
            epoch=epoch,
            assignment_epoch=epoch,
            members={each.member_id: _of_classic(each, epoch) for each in picture.members},
            told_state=picture.state,
        )

    # -- partitions ------------------------------------------------------------------------------

    def packed(self, partitions: ById, names: Mapping[str, str]) -> bytes:
        """Partitions of topics by their ids, as they are stored. `names`: names of topics by id."""
        numbers = self._numbers
        for topic_id in sorted(partitions):
            name = names.get(topic_id, "")
            if topic_id not in numbers:
                numbers[topic_id] = len(self.topics)
                self.topics.append(Topic(topic_id, name))
            elif name and not self.topics[numbers[topic_id]].name:
                self.topics[numbers[topic_id]] = Topic(topic_id, name)
        return pack({numbers[topic_id]: each for topic_id, each in partitions.items()})

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {topic.topic_id: number for number, topic in enumerate(self.topics)}

    def named(self, partitions: Partitions) -> list[tuple[str, list[int]]]:
        """Partitions by the names of their topics, in order. A topic without a name has its id."""
        found: dict[str, set[int]] = {}
        for number, each in partitions.items():
            topic = self.topics[number]
            found.setdefault(topic.name or topic.topic_id, set()).update(each)
        return [(name, sorted(found[name])) for name in sorted(found)]

    def assignment(self, partitions: Partitions) -> bytes:
        """Partitions in the form of Kafka's consumers."""
        return assignment_of(self.named(partitions))

    def forget_topics(self) -> None:
        """Forget the topics that no member has or is to have, once they may be most of all."""
        if len(self.topics) <= 2 * self.kept_topics + _SPARE_TOPICS:
            # To look at all members at each assignment is quadratic.
            return
        packed = [
            (member, name) for member in self.members.values() for name in ("target", "assigned", "pending")
        ]
        used = {number for member, name in packed for number in unpack(getattr(member, name))}
        numbers = {before: after for after, before in enumerate(sorted(used))}
        for member, name in packed:
            partitions = unpack(getattr(member, name))
            setattr(member, name, pack({numbers[topic]: each for topic, each in partitions.items()}))
        self.topics = [self.topics[number] for number in numbers]
        self.kept_topics = len(self.topics)
        self.__dict__.pop("_numbers", None)

    # -- members ---------------------------------------------------------------------------------

    def names_of(self, facts: MemberFacts) -> list[str]:
        """The topics that a member reads, in order: by name, or by a pattern as far as it is resolved."""
        return sorted({*facts.topics, *self.patterns.get(facts.pattern, ())})

    def is_on_its_way(self, member: WatchedMember) -> bool:
        """Whether a member of the group has not come to its target yet."""
        # Each assignment asks this about all members.
        return (
            (member.epoch != self.assignment_epoch or member.state != MemberState.STABLE)
            and member.facts is not None
            and not member.is_leaving
        )

    @property
    def assignor(self) -> str | None:
        """The assignor that most members name; None: none does, and the log does not say which one it is."""
        facts = [it.facts for it in self.members.values() if it.facts is not None]
        votes = Counter(each.server_assignor for each in facts if each.server_assignor)
        return min(votes, key=lambda name: (-votes[name], name)) if votes else None

    # -- what is told ----------------------------------------------------------------------------

    def picture(self, group_id: str) -> GroupPicture:
        """The group as tools show it."""
        return GroupPicture(
            group_id=group_id,
            state=self.told_state,
            generation_id=self.epoch,
            protocol_type=CONSUMER,
            protocol_name=self.assignor,
            leader=None,
            members=[*self._pictured()],
            state_timestamp_ms=self.state_timestamp_ms,
            group_type=CONSUMER,
            assignment_epoch=self.assignment_epoch,
            patterns=[
                KnownPattern(pattern=pattern, topics=sorted(topics))
                for pattern, topics in sorted(self.patterns.items())
            ]
            or msgspec.UNSET,
        )

    def _pictured(self) -> Iterable[PicturedMember]:
        subscriptions: dict[tuple[str, ...], bytes] = {}
        for member in self.members.values():
            facts = member.facts
            if facts is None:
                continue
            names = tuple(self.names_of(facts))
            if names not in subscriptions:
                subscriptions[names] = subscription_of(names)
            yield PicturedMember(
                member_id=member.member_id,
                group_instance_id=facts.group_instance_id,
                client_id=facts.client_id,
                client_host=facts.client_host,
                member_metadata=subscriptions[names],
                member_assignment=self.assignment(member.held),
                # That of a member of the consumer protocol is a setting of its broker.
                session_timeout_ms=facts.session_timeout_ms or 0,
                rebalance_timeout_ms=facts.rebalance_timeout_ms,
                member_epoch=member.epoch,
                target_assignment=self.assignment(unpack(member.target)),
            )


def _of_classic(member: PicturedMember, epoch: int) -> WatchedMember:
    try:
        topics = topics_of(member.member_metadata)
    except struct.error:
        topics = []
    facts = MemberFacts(
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(filter(is_writable, set(topics)))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        group_instance_id=member.group_instance_id,
        session_timeout_ms=member.session_timeout_ms,
    )
    return WatchedMember(member.member_id, facts, epoch)
