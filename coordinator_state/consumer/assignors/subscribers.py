"""Members as assignors see them.

Kafka's assignors take members and topics in the order of its hash maps. Here each order is fixed, so that a
replay computes the same target. Members go by their ids, topics by their names, partitions by their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.consumer.partitions import Partitions
from group_coordinator.coordinator_state.consumer.topics import Topic

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Assignor", "Subscriber", "kept", "topics_by_name"]


class Subscriber(NamedTuple):
    """A member as an assignor sees it.

    `topics`: the numbers of those that it subscribes to and that exist. `target`: its part of the target
    before. No two members have one partition there.
    """

    member_id: str
    group_instance_id: str | None
    topics: frozenset[int]
    target: Partitions


Assignor = Callable[[Sequence[Subscriber], Mapping[int, Topic], bool], dict[str, Partitions]]
"""Computes a target: the partitions of each member, by member id.

The arguments are the members, the topics by their numbers, and whether all members subscribe to the same
topics. An assignor changes nothing that it is given, but the new target may have sets of the one before.
"""


def topics_by_name(numbers: Iterable[int], topics: Mapping[int, Topic]) -> list[Topic]:
    """Return the topics with these numbers in the order of their names."""
    return sorted((topics[number] for number in numbers), key=lambda topic: topic.name)


def kept(subscriber: Subscriber, topics: Mapping[int, Topic]) -> Partitions:
    """Return what a member can keep of its target: partitions that exist, of topics that it subscribes to.

    It is the very target if that is all of it.
    """
    own, target = subscriber.topics, subscriber.target
    for number, partitions in target.items():
        if number not in own or max(partitions) >= topics[number].partitions:
            break
    else:
        return target
    found: Partitions = {}
    for number, partitions in target.items():
        if number in own and (still := {each for each in partitions if each < topics[number].partitions}):
            found[number] = still
    return found
