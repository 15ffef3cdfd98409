"""Kafka's `uniform` assignor: all members get as many partitions as others, and keep what they can.

If all subscribe to the same topics, one pass does it, and no target that is as even moves fewer partitions.
Otherwise see `heterogeneous.py`.

Source: UniformAssignor and UniformHomogeneousAssignmentBuilder of Apache Kafka 4.4.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.assignors.group_spec import kept
from group_coordinator.coordinator_state.consumer.assignors.heterogeneous import assign_unlike

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from group_coordinator.coordinator_state.consumer.assignors.group_spec import GroupSpec
    from group_coordinator.coordinator_state.consumer.partitions import Partitions
    from group_coordinator.coordinator_state.consumer.topic_table import Topic


def assign_uniformly(group: GroupSpec) -> dict[str, Partitions]:
    """Compute the target of an `Assignor`: sizes as equal as subscriptions allow, with few moves."""
    if not group.is_homogeneous:
        return assign_unlike(group)
    member_ids = sorted(group.targets)
    subscription = group.subscription(member_ids[0]) if member_ids else frozenset()
    wanted = sorted((group.topics[number] for number in subscription), key=lambda topic: topic.name)
    if not wanted:
        return {member_id: {} for member_id in member_ids}
    targets = {member_id: group.targets[member_id] for member_id in member_ids}
    taken = _taken(targets.values())
    if kept(taken, subscription, group.topics) is not taken:
        targets = {
            member_id: kept(target, subscription, group.topics) for member_id, target in targets.items()
        }
    free = [
        (topic.number, partition)
        for topic in wanted
        for partition in sorted(set(range(topic.partitions)).difference(taken.get(topic.number, ())))
    ]
    unfilled = _even_out(targets, free, wanted)
    given = iter(free)
    for member_id, room in unfilled.items():
        # Its sets may be those of the target before.
        partitions = {number: set(each) for number, each in targets[member_id].items()}
        for number, partition in islice(given, room):
            partitions.setdefault(number, set()).add(partition)
        targets[member_id] = partitions
    return targets


def _taken(targets: Iterable[Partitions]) -> Partitions:
    """The partitions of all targets together."""
    taken: dict[int, list[set[int]]] = {}
    for target in targets:
        for number, partitions in target.items():
            taken.setdefault(number, []).append(partitions)
    return {number: set().union(*parts) for number, parts in taken.items()}


def _even_out(
    targets: dict[str, Partitions], free: list[tuple[int, int]], wanted: Sequence[Topic]
) -> dict[str, int]:
    """Take from members what is above their quota, to the end of `free`; return how many others lack.

    Where the members do not divide the partitions evenly, some get one more. A member that has enough for it
    gets it rather than one that would have to be given it.
    """
    least, extras = divmod(sum(topic.partitions for topic in wanted), len(targets))
    places = {topic.number: place for place, topic in enumerate(wanted)}
    unfilled: dict[str, int] = {}
    left = len(targets)
    for member_id, target in targets.items():
        left -= 1
        quota, size = least, 0
        for partitions in target.values():
            size += len(partitions)
        if extras and (size > least or left < extras):
            quota, extras = quota + 1, extras - 1
        if size < quota:
            unfilled[member_id] = quota - size
        elif size > quota:
            targets[member_id] = _cut(target, size - quota, free, places)
    return unfilled


def _cut(
    target: Partitions, surplus: int, free: list[tuple[int, int]], places: Mapping[int, int]
) -> Partitions:
    """Take the last `surplus` partitions from a target, and put them to the end of `free`."""
    ordered = [
        (number, each) for number in sorted(target, key=places.__getitem__) for each in sorted(target[number])
    ]
    free += ordered[-surplus:]
    left: Partitions = {}
    for number, partition in ordered[:-surplus]:
        left.setdefault(number, set()).add(partition)
    return left
