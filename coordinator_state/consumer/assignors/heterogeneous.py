"""The `uniform` assignor where members subscribe to different topics.

Members keep what they still subscribe to. Topics with many partitions for a subscriber come first. Each new
partition of them goes to the subscriber that has the fewest, of all topics together. Then partitions move,
topic by topic, from subscribers that have many to those that have few. That ends when a round moves nothing.
Subscriptions that overlap may need many rounds, so there is a limit: the target may be a little uneven.

Source: UniformHeterogeneousAssignmentBuilder of Apache Kafka 4.4. Where it takes topics by their ids, this
takes them by their names, since units have no id.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.consumer.assignors.group_spec import kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from group_coordinator.coordinator_state.consumer.assignors.group_spec import GroupSpec
    from group_coordinator.coordinator_state.consumer.partitions import Partitions
    from group_coordinator.coordinator_state.consumer.topic_table import Topic

_ROUNDS = 16
"""Kafka's limit (MAX_ITERATION_COUNT)."""
_NOBODY = -1


class _Spread(NamedTuple):
    """A topic on its way: who has its partitions. Members go by their places in the order of their ids.

    `owners`: of each partition, `_NOBODY` for none. `subscribers`: in rising order.
    """

    topic: Topic
    owners: list[int]
    subscribers: list[int]

    @property
    def rank(self) -> tuple[float, int, str]:
        """The place of the topic in the order of topics."""
        return -self.topic.partitions / len(self.subscribers), len(self.subscribers), self.topic.name


def assign_unlike(group: GroupSpec) -> dict[str, Partitions]:
    """Compute the target of members that subscribe to different topics."""
    member_ids = sorted(group.targets)
    spreads: dict[int, _Spread] = {}
    for place, member_id in enumerate(member_ids):
        for number in group.subscription(member_id):
            if number not in spreads:
                topic = group.topics[number]
                spreads[number] = _Spread(topic, [_NOBODY] * topic.partitions, [])
            spreads[number].subscribers.append(place)
    sizes = [0] * len(member_ids)
    for place, member_id in enumerate(member_ids):
        own = kept(group.targets[member_id], group.subscription(member_id), group.topics)
        for number, partitions in own.items():
            sizes[place] += len(partitions)
            for partition in partitions:
                spreads[number].owners[partition] = place
    ordered = sorted(spreads.values(), key=lambda spread: spread.rank)
    for spread in ordered:
        _hand_out(spread, sizes)
    _balance([spread for spread in ordered if len(spread.subscribers) > 1], sizes)
    return _targets(member_ids, ordered)


def _targets(member_ids: Sequence[str], spreads: Sequence[_Spread]) -> dict[str, Partitions]:
    targets: list[Partitions] = [{} for _ in member_ids]
    for spread in spreads:
        for partition, owner in enumerate(spread.owners):
            targets[owner].setdefault(spread.topic.number, set()).add(partition)
    return dict(zip(member_ids, targets, strict=True))


def _hand_out(spread: _Spread, sizes: list[int]) -> None:
    """Give each partition of nobody to the subscriber that has the fewest."""
    of_nobody = (partition for partition, owner in enumerate(spread.owners) if owner == _NOBODY)
    for partition, (taker, _) in zip(of_nobody, _least_loaded(spread, sizes), strict=False):
        spread.owners[partition] = taker
        sizes[taker] += 1


def _balance(spreads: Sequence[_Spread], sizes: list[int]) -> None:
    """Even topics out, round after round, until none has changed since the last that did."""
    last = None
    for spread in chain.from_iterable(repeat(spreads, _ROUNDS)):
        if spread is last:
            return
        if _even_out(spread, sizes) or last is None:
            last = spread


def _even_out(spread: _Spread, sizes: list[int]) -> bool:
    """Move partitions of a topic until its subscribers differ by one; return whether any has moved."""
    loads = [sizes[subscriber] for subscriber in spread.subscribers]
    if max(loads) - min(loads) <= 1:
        return False
    has: dict[int, list[int]] = {subscriber: [] for subscriber in spread.subscribers}
    for partition, owner in enumerate(spread.owners):
        has[owner].append(partition)
    takers = _least_loaded(spread, sizes)
    has_moved = False
    for giver, most in _most_loaded(spread, sizes, has):
        taker, least = next(takers)
        if most - least <= 1:
            break
        spread.owners[has[giver].pop()] = taker
        sizes[giver] -= 1
        sizes[taker] += 1
        has_moved = True
    return has_moved


def _least_loaded(spread: _Spread, sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Yield subscribers to give a partition to, and how many they have: the fewest of all first.

    Each has one more when the next is asked for. Those that have the fewest get one each, and only then more.
    """
    order = sorted(spread.subscribers, key=sizes.__getitem__)
    level, end = sizes[order[0]], 0
    while True:
        while end < len(order) and sizes[order[end]] == level:
            end += 1
        for subscriber in order[:end]:
            yield subscriber, level
        level += 1


def _most_loaded(
    spread: _Spread, sizes: list[int], has: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """Yield subscribers to take a partition from, and how many they have, as long as one has a partition.

    Each has one less when the next is asked for. Those that have none of this topic are not looked at again.
    """
    order = sorted(spread.subscribers, key=sizes.__getitem__)
    start = end = len(order)
    level = 0
    while end:
        level = level - 1 if start < end else sizes[order[start - 1]]
        while start and sizes[order[start - 1]] == level:
            start -= 1
        for place in range(end - 1, start - 1, -1):
            subscriber = order[place]
            if has[subscriber]:
                yield subscriber, level
            else:
                end -= 1
                order[place], order[end] = order[end], order[place]
