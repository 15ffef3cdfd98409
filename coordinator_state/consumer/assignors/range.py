"""Kafka's `range` assignor: each subscriber of a topic gets a range of its partitions.

So a member gets the same partitions of all topics that have as many. The target before does not count.

Source: RangeAssignor of Apache Kafka 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from group_coordinator.coordinator_state.consumer.assignors.group_spec import GroupSpec
    from group_coordinator.coordinator_state.consumer.partitions import Partitions


def assign_ranges(group: GroupSpec) -> dict[str, Partitions]:
    """Compute the target of an `Assignor`: for each topic, a range for each of its subscribers in turn."""
    members = sorted(group.targets, key=lambda member_id: _place(member_id, group.instance_id(member_id)))
    targets: dict[str, Partitions] = {member_id: {} for member_id in members}
    for number, subscribers in _by_topic(group, members).items():
        each, extras = divmod(group.topics[number].partitions, len(subscribers))
        end = 0
        for place, member_id in enumerate(subscribers):
            start, end = end, end + each + (place < extras)
            if start == end:
                break  # The others get none either.
            targets[member_id][number] = set(range(start, end))
    return targets


def _by_topic(group: GroupSpec, members: Sequence[str]) -> Mapping[int, Sequence[str]]:
    """Topic number -> the topic's subscribers, in the order of `members`."""
    if group.is_homogeneous:
        return dict.fromkeys(group.subscription(members[0]) if members else (), members)
    subscribers: dict[int, list[str]] = {}
    for member_id in members:
        for number in group.subscription(member_id):
            subscribers.setdefault(number, []).append(member_id)
    return subscribers


def _place(member_id: str, instance_id: str | None) -> tuple[bool, bytes]:
    """Where a member comes: static ones first, by instance id, then others by member id, as Java sorts."""
    name = member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be", "surrogatepass")
