"""A group as assignors see it.

Kafka's assignors take members and topics in the order of its hash maps. Here each order is fixed, so that a
replay computes the same target. Members go by their ids, topics by their names, partitions by their numbers.

Source: GroupSpec of Apache Kafka 4.4, in the package coordinator.group.api.assignor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from group_coordinator.coordinator_state.consumer.partitions import Partitions
from group_coordinator.coordinator_state.consumer.topic_table import Topic


class GroupSpec(NamedTuple):
    """A group as an assignor sees it.

    The functions are for what not every assignor asks about every member.

    `targets`: the target before, by member id. Each member is in it, and no two have one partition there.
    `topics`: the topics that exist, by their numbers.
    `subscription`: the numbers of those that a member subscribes to.
    `is_homogeneous`: whether all members subscribe to the same topics.
    `instance_id`: the `group.instance.id` of a member; None if it is not static.
    """

    targets: Mapping[str, Partitions]
    topics: Mapping[int, Topic]
    subscription: Callable[[str], frozenset[int]]
    is_homogeneous: bool
    instance_id: Callable[[str], str | None]


Assignor = Callable[[GroupSpec], dict[str, Partitions]]
"""Computes a target: the partitions of each member, by member id.

An assignor changes nothing that it is given, but the new target may have sets of the one before.
"""


def kept(target: Partitions, subscription: frozenset[int], topics: Mapping[int, Topic]) -> Partitions:
    """Return what a member can keep of its target: partitions that exist, of topics that it subscribes to.

    It is the very target if that is all of it.
    """
    for number, partitions in target.items():
        if number not in subscription or max(partitions) >= topics[number].partitions:
            break
    else:
        return target
    found: Partitions = {}
    for number, partitions in target.items():
        still = {each for each in partitions if number in subscription and each < topics[number].partitions}
        if still:
            found[number] = still
    return found
