"""The work that a group can share: the partitions of topics, or the units of any list.

Partitions travel in Kafka's own encoding (ConsumerProtocolSubscription and ConsumerProtocolAssignment,
version 0), so that any Kafka tool can read them; units as JSON.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import TopicPartition

from group_coordinator.client import assignors
from group_coordinator.coordinator_state.requests import Protocol as OfferedProtocol
from group_coordinator.coordinator_state.responses import JoinGroupMember

Unit = Any
"""One piece of work: a kafka-python `TopicPartition`, or the name of a unit (str)."""

DEFAULT_ASSIGNORS = ("range", "roundrobin")

T = TypeVar("T")
log = logging.getLogger(__name__)


class MalformedMetadataError(ValueError):
    """Bytes from another member that cannot be read: its subscription, or what it assigned as leader."""


class TopicPartitions:
    """The partitions of the topics that each member subscribes to.

    `partition_counts`: looks up topics; topic -> number of partitions, without those that do not exist.
    Source: ConsumerCoordinator.java of Apache Kafka 4.
    """

    protocol_type = "consumer"
    """Members with different ones cannot be in one group."""
    subscription: tuple[str, ...]
    """The names that are asked for, sorted."""

    def __init__(
        self,
        topics: Collection[str],
        partition_counts: Callable[[Collection[str]], Mapping[str, int]],
        assignor_names: Sequence[str] = DEFAULT_ASSIGNORS,
    ) -> None:
        self.subscription = tuple(sorted(checked_names(topics, "topics")))
        self._assignors = assignors.check_names(assignor_names)
        self._partition_counts = partition_counts
        self._shared_topics: frozenset[str] = frozenset()
        # None: not looked up yet.
        self._shared_counts: Mapping[str, int] | None = {}

    def protocols(self, owned: Collection[TopicPartition], generation_id: int) -> list[OfferedProtocol]:
        """Return what to join with, the most wanted assignor first.

        `owned` in `generation_id` is the last assignment, for assignors that leave work where it was.
        """
        return [
            OfferedProtocol(
                name, assignors.subscription(name, self.subscription, owned, generation_id).encode()
            )
            for name in self._assignors
        ]

    def assign(self, protocol_name: str, members: Sequence[JoinGroupMember]) -> dict[str, bytes]:
        """Divide the work; member id -> assignment. Raises MalformedMetadataError.

        Topics that do not exist are nobody's until they do.
        """
        subscribers = _subscribers(members)
        self._shared_topics = _topics(subscribers)
        self._shared_counts = counts = self._partition_counts(self._shared_topics)
        for topic in sorted(self._shared_topics - counts.keys()):
            # Otherwise a name that is misspelt would show in nothing but silence.
            log.warning("there is no topic %s: members are assigned its partitions once it is created", topic)
        shares = assignors.divide(protocol_name, subscribers, counts)
        return {
            member_id: assignors.to_assignment(partitions).encode()
            for member_id, partitions in shares.items()
        }

    def watch(self, members: Sequence[JoinGroupMember]) -> None:
        """Lead members whose work is divided already, for `outdated`. Raises MalformedMetadataError."""
        topics = _topics(_subscribers(members))
        if topics != self._shared_topics:
            self._shared_topics, self._shared_counts = topics, None

    def outdated(self) -> bool:
        """Whether the partition counts, which are looked up, have changed since the last `assign`.

        After `watch` by a program that has just started: since the first look. It cannot know what they were
        when the work was divided.
        """
        counts = self._partition_counts(self._shared_topics)
        if self._shared_counts is None:
            self._shared_counts = counts
        return counts != self._shared_counts

    def decode(self, assignment: bytes) -> tuple[TopicPartition, ...]:
        """Read what the leader assigned. Raises MalformedMetadataError."""
        if not assignment:  # the leader forgot this member
            return ()
        decoded = _read(ConsumerProtocolAssignment.decode, assignment, "the leader")
        return tuple(sorted(decoded.partitions()))


def _subscribers(members: Sequence[JoinGroupMember]) -> list[assignors.Subscriber]:
    decode = ConsumerProtocolSubscription.decode
    return [
        assignors.Subscriber(
            member.member_id,
            member.group_instance_id,
            _read(decode, member.metadata, f"member {member.member_id}"),
        )
        for member in members
    ]


def _topics(subscribers: Sequence[assignors.Subscriber]) -> frozenset[str]:
    return frozenset(topic for each in subscribers for topic in each.metadata.topics)


class _UnitsSubscription(msgspec.Struct):
    owned: list[str] = []
    generation_id: int = -1


class _UnitsAssignment(msgspec.Struct):
    units: list[str]


class WorkUnits:
    """The units of a list (protocol type "units"). The leader's list is what gets shared.

    Only the leader divides, so the lists of the others matter once they lead: give all members the same. To
    the assignors the leader's units are the partitions of one topic, which exists nowhere else. Members send
    each other the names, because their lists may differ.
    """

    protocol_type = "units"

    def __init__(self, units: Collection[str], assignor_names: Sequence[str] = DEFAULT_ASSIGNORS) -> None:
        # Not as Kafka's assignors order topics, by text: neighbours are to stay together.
        self.subscription = tuple(sorted(checked_names(units, "units"), key=natural))
        self._assignors = assignors.check_names(assignor_names)

    def protocols(self, owned: Collection[str], generation_id: int) -> list[OfferedProtocol]:
        """See `TopicPartitions`."""
        metadata = msgspec.json.encode(_UnitsSubscription(sorted(owned), generation_id))
        return [OfferedProtocol(name, metadata) for name in self._assignors]

    def assign(self, protocol_name: str, members: Sequence[JoinGroupMember]) -> dict[str, bytes]:
        """See `TopicPartitions`."""
        topic, units = self.protocol_type, self.subscription
        partition_of = {unit: TopicPartition(topic, i) for i, unit in enumerate(units)}
        read = msgspec.json.Decoder(_UnitsSubscription).decode
        subscribers = []
        for member in members:
            metadata = _read(read, member.metadata, f"member {member.member_id}")
            owned = [partition_of[unit] for unit in metadata.owned if unit in partition_of]
            subscribers.append(
                assignors.Subscriber(
                    member.member_id,
                    member.group_instance_id,
                    assignors.subscription(protocol_name, [topic], owned, metadata.generation_id),
                )
            )
        shares = assignors.divide(protocol_name, subscribers, {topic: len(units)})
        return {
            member_id: msgspec.json.encode(_UnitsAssignment([units[each.partition] for each in share]))
            for member_id, share in shares.items()
        }

    def watch(self, members: Sequence[JoinGroupMember]) -> None:
        """See `TopicPartitions`."""

    def outdated(self) -> bool:
        """See `TopicPartitions`. A list does not change by itself."""
        return False

    def decode(self, assignment: bytes) -> tuple[str, ...]:
        """See `TopicPartitions`."""
        if not assignment:  # the leader forgot this member
            return ()
        decoded = _read(msgspec.json.Decoder(_UnitsAssignment).decode, assignment, "the leader")
        return tuple(sorted(decoded.units, key=natural))


Work = TopicPartitions | WorkUnits
"""The work of a group: what to join with, how the leader divides it, and how to read the outcome."""


def natural(name: str) -> tuple[list[tuple[Any, ...]], str]:
    """Sort key that puts unit-2 before unit-10, and is different for different names."""
    texts = re.split("[0-9]+", name)
    # Numbers compare by their length first: int() refuses those of thousands of digits.
    numbers = [(len(digits), digits) for digits in (it.lstrip("0") for it in re.findall("[0-9]+", name))]
    return [*zip(texts, numbers, strict=False), (texts[-1],)], name


def partition_of(unit: Unit) -> TopicPartition:
    """The partition that keeps the progress of `unit`: itself, or partition 0 of a topic of its name."""
    if isinstance(unit, str):
        return TopicPartition(unit, 0)
    if isinstance(unit, TopicPartition):
        return unit
    raise TypeError(f"{unit!r} is no unit of work: give a TopicPartition or the name of a unit")


def checked_names(names: Collection[str], what: str) -> set[str]:
    """Return the names, called `what`, as a set. Raises TypeError if they are no list of strings."""
    # A str is a collection of str as well, but never what is meant.
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be a list of strings")
    return set(names)


def _read(decode: Callable[[bytes], T], data: bytes, sender: str) -> T:
    try:
        return decode(data)
    except Exception as error:  # kafka-python's decoders raise errors of all kinds
        raise MalformedMetadataError(f"what {sender} sent cannot be read: {error!r}") from error


# How the members of a group share work, by its protocol type; only what decodes assignments is used.
_WORK: dict[str, Work] = {
    each.protocol_type: each for each in (TopicPartitions((), lambda _: {}), WorkUnits(()))
}


def assigned_partitions(protocol_type: str, assignment: bytes) -> tuple[TopicPartition, ...] | None:
    """Return what a member owns, of any group; units as `partition_of` has them.

    None if that cannot be read: the leader sent nonsense, or the group's protocol is somebody's own.
    """
    if not assignment:
        return ()
    work = _WORK.get(protocol_type)
    if work is None:
        return None
    try:
        return tuple(partition_of(unit) for unit in work.decode(assignment))
    except MalformedMetadataError:
        return None
