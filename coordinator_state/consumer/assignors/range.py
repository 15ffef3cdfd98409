"""Kafka's `range` assignor: each subscriber of a topic gets a range of its partitions.

So a member gets the same partitions of all topics that have as many. The target before does not count.

Source: RangeAssignor of Apache Kafka 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from group_coordinator.coordinator_state.consumer.assignors.subscribers import Subscriber
    from group_coordinator.coordinator_state.consumer.partitions import Partitions
    from group_coordinator.coordinator_state.consumer.topics import Topic

__all__ = ["assign_ranges"]


def assign_ranges(
    subscribers: Sequence[Subscriber],
    topics: Mapping[int, Topic],
    is_homogeneous: bool,  # noqa: FBT001 - an `Assignor` takes it so
) -> dict[str, Partitions]:
    """Compute the target of an `Assignor`: for each topic, a range for each of its subscribers in turn."""
    members = sorted(subscribers, key=_place)
    targets: dict[str, Partitions] = {member.member_id: {} for member in members}
    for number, of_topic in _by_topic(members, is_homogeneous=is_homogeneous).items():
        each, extras = divmod(topics[number].partitions, len(of_topic))
        end = 0
        for place, member in enumerate(of_topic):
            start, end = end, end + each + (place < extras)
            if start == end:
                break  # The others get none either.
            targets[member.member_id][number] = set(range(start, end))
    return targets


def _by_topic(members: Sequence[Subscriber], *, is_homogeneous: bool) -> Mapping[int, Sequence[Subscriber]]:
    """Topic number -> the topic's subscribers, in the order of `members`."""
    if is_homogeneous:
        return dict.fromkeys(members[0].topics if members else (), members)
    subscribers: dict[int, list[Subscriber]] = {}
    for member in members:
        for number in member.topics:
            subscribers.setdefault(number, []).append(member)
    return subscribers


def _place(member: Subscriber) -> tuple[bool, bytes]:
    """Where a member comes: static ones first, by instance id, then others by member id, as Java sorts."""
    instance_id = member.group_instance_id
    name = member.member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be", "surrogatepass")
