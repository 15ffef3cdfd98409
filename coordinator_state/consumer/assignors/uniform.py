"""Kafka's `uniform` assignor: all members get as many partitions as others, and keep what they can.

If all subscribe to the same topics, one pass does it, and no target that is as even moves fewer partitions.
Otherwise see `heterogeneous.py`.

Source: UniformAssignor and UniformHomogeneousAssignmentBuilder of Apache Kafka 4.4.
"""

from __future__ import annotations

from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.assignors.heterogeneous import assign_unlike
from group_coordinator.coordinator_state.consumer.assignors.subscribers import kept, topics_by_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from group_coordinator.coordinator_state.consumer.assignors.subscribers import Subscriber
    from group_coordinator.coordinator_state.consumer.partitions import Partitions
    from group_coordinator.coordinator_state.consumer.topics import Topic

__all__ = ["assign_uniformly"]


def assign_uniformly(
    subscribers: Sequence[Subscriber],
    topics: Mapping[int, Topic],
    is_homogeneous: bool,  # noqa: FBT001 - an `Assignor` takes it so
) -> dict[str, Partitions]:
    """Compute the target of an `Assignor`: sizes as equal as subscriptions allow, with few moves."""
    members = sorted(subscribers, key=attrgetter("member_id"))
    if not is_homogeneous:
        return assign_unlike(members, topics)
    wanted = topics_by_name(members[0].topics, topics) if members else []
    if not wanted:
        return {member.member_id: {} for member in members}
    targets = {member.member_id: kept(member, topics) for member in members}
    free = list(_of_nobody(wanted, targets.values()))
    unfilled = _even_out(targets, free, wanted)
    given = iter(free)
    for member_id, room in unfilled.items():
        # Its sets may be those of the target before.
        partitions = {number: set(each) for number, each in targets[member_id].items()}
        for number, partition in islice(given, room):
            partitions.setdefault(number, set()).add(partition)
        targets[member_id] = partitions
    return targets


def _of_nobody(wanted: Sequence[Topic], targets: Iterable[Partitions]) -> Iterator[tuple[int, int]]:
    """Yield the partitions that are in no target, as (topic number, partition)."""
    taken: Partitions = {topic.number: set() for topic in wanted}
    for target in targets:
        for number, partitions in target.items():
            taken[number] |= partitions
    for topic in wanted:
        for partition in range(topic.partitions):
            if partition not in taken[topic.number]:
                yield topic.number, partition


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
    for left, (member_id, target) in zip(range(len(targets), 0, -1), targets.items(), strict=True):
        gets_extra = extras > 0
        room = least + gets_extra - sum(map(len, target.values()))
        if room > 0 and gets_extra and left > extras:
            # Enough members come after it.
            gets_extra = False
            room -= 1
        extras -= gets_extra
        if room > 0:
            unfilled[member_id] = room
        elif room < 0:
            targets[member_id] = _cut(target, -room, free, places)
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
