"""kafka-python's assignors: how they are chosen, asked what to join with, and made to divide partitions.

Every use makes a new assignor object, so nothing is remembered here. Each time, the sticky assignor is told
what it has to know of earlier generations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any, NamedTuple

from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import TopicPartition


class Subscriber(NamedTuple):
    """A member as assignors know it: `metadata` is a ConsumerProtocolSubscription."""

    member_id: str
    group_instance_id: str | None
    metadata: ConsumerProtocolSubscription


class _RoundRobin(RoundRobinPartitionAssignor):  # type: ignore[misc]
    """kafka-python 3.0.12 raises KeyError when members subscribe to different topics.

    Source of the order: RoundRobinAssignor.java of Apache Kafka.
    """

    @classmethod
    def assign(cls, cluster: _Cluster, members: list[Subscriber]) -> dict[str, ConsumerProtocolAssignment]:
        topics = {member.member_id: frozenset(member.metadata.topics) for member in members}
        owned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in topics}
        turns = cycle(topics)
        for topic in sorted(frozenset().union(*topics.values())):
            for partition in sorted(cluster.partitions_for_topic(topic) or ()):
                member_id = next(each for each in turns if topic in topics[each])
                owned[member_id].append(TopicPartition(topic, partition))
        return {member_id: to_assignment(partitions) for member_id, partitions in owned.items()}


_ASSIGNORS = {each.name: each for each in (RangePartitionAssignor, _RoundRobin, StickyPartitionAssignor)}


class _Cluster:
    """As much of kafka-python's ClusterMetadata as assignors look at."""

    def __init__(self, partition_counts: Mapping[str, int]) -> None:
        self._partition_counts = partition_counts

    def topics(self) -> set[str]:
        return set(self._partition_counts)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        count = self._partition_counts.get(topic)
        return None if count is None else set(range(count))


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of assignors, without repeats; ValueError if one cannot be used."""
    unique = tuple(dict.fromkeys(names))
    for name in unique:
        if "cooperative" in name:
            raise ValueError(
                f"assignor {name!r} is not supported: members give up everything before they join (the "
                f"eager protocol of KIP-429), which it is not made for. Use 'sticky' to keep work in place."
            )
        if name not in _ASSIGNORS:
            raise ValueError(f"unknown assignor {name!r}; there are {', '.join(_ASSIGNORS)}")
    if not unique:
        raise ValueError(f"at least one assignor is needed: {', '.join(_ASSIGNORS)}")
    return unique


def subscription(
    name: str, topics: Iterable[str], owned: Iterable[TopicPartition], generation_id: int
) -> ConsumerProtocolSubscription:
    """Return the subscription for the assignor `name`; `owned` in `generation_id` is the last assignment."""
    assignor = _ASSIGNORS[name]()
    if owned:
        assignor.on_assignment(to_assignment(owned), generation_id)
    return assignor.metadata(sorted(topics))


def divide(
    name: str, members: Iterable[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Divide the partitions with the assignor `name`; member id -> partitions."""
    # Static members first, because kafka-python's grouping of them needs them together. Then by id, so that
    # the outcome does not depend on the order in which the coordinator names the members.
    ordered = sorted(members, key=lambda each: (each.group_instance_id is None, each[:2]))
    assignments: dict[str, Any] = _ASSIGNORS[name]().assign(_Cluster(partition_counts), ordered)
    return {member_id: assignment.partitions() for member_id, assignment in assignments.items()}


def to_assignment(partitions: Iterable[TopicPartition]) -> ConsumerProtocolAssignment:
    """The partitions in Kafka's own form."""
    by_topic = defaultdict(list)
    for topic, partition in sorted(partitions):
        by_topic[topic].append(partition)
    return ConsumerProtocolAssignment(0, list(by_topic.items()), b"")
