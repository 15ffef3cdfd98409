"""The subscriptions of a group's members, each kept once, and what their patterns match.

Most members of a group name the same topics. So a member has the number of its subscription, and a heartbeat
need not read it.

The core compiles no pattern, and does not know which topics there are. Somebody outside resolves a pattern,
and the group keeps what it matches as long as a member has it. The topics of a subscription are those that
it names, and those that its pattern matches.

Source: ConsumerGroup of Apache Kafka 4.4 (resolvedRegularExpressions, subscriptionType).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from group_coordinator.coordinator_state.requests.consumer import PatternTopics


class Pattern(msgspec.Struct, frozen=True, array_like=True):
    """A pattern of members, and the user who may see what it matches.

    `user` None: its members have left it to the watcher of topics.
    """

    text: str
    user: str | None = None


Resolved: TypeAlias = tuple[str, ...] | None
"""The topics that a pattern matches, sorted; None: nobody has resolved it yet."""


class Wanted(NamedTuple):
    """A subscription as a member asks for it: topics by name, sorted, and a pattern.

    `resolved`: what the pattern matches, as far as its sender knows.
    """

    names: tuple[str, ...]
    pattern: Pattern | None = None
    resolved: Resolved = None


class _Subscription(msgspec.Struct, array_like=True):
    """`members`: how many have it. `names`: sorted, each once."""

    members: int
    names: tuple[str, ...]
    pattern: Pattern | None = None


class _Stored(msgspec.Struct, array_like=True):
    next_number: int = 0
    subscriptions: dict[int, _Subscription] = {}
    resolved: list[tuple[Pattern, Resolved]] = []


class Subscriptions:
    """The subscriptions of one group. `encoded`: what `encode` returned, or nothing."""

    def __init__(self, encoded: bytes = b"") -> None:
        stored = msgspec.msgpack.decode(encoded, type=_Stored) if encoded else _Stored()
        self._next_number, self._all = stored.next_number, dict(stored.subscriptions)
        self._numbers = {(each.names, each.pattern): number for number, each in self._all.items()}
        self.resolved = dict(stored.resolved)
        """The patterns of members, in the order in which they came, and what each matches."""
        self._topics: dict[int, tuple[str, ...]] = {}
        """The topics of each that was asked about."""
        self._names: dict[str, None] | None = None
        # Thousands of members may have the same one, with thousands of names.
        self._sizes: dict[int, int] = {}

    def encode(self) -> bytes:
        """The stored form."""
        return msgspec.msgpack.encode(_Stored(self._next_number, self._all, list(self.resolved.items())))

    # -- questions -------------------------------------------------------------------------------

    def names(self, number: int) -> tuple[str, ...]:
        """The topics of one, sorted: those that it names, and those that its pattern matches."""
        topics = self._topics.get(number)
        if topics is None:
            each = self._all[number]
            resolved = None if each.pattern is None else self.resolved[each.pattern]
            topics = self._topics[number] = _union(each.names, resolved)
        return topics

    def wanted(self, number: int) -> Wanted:
        """One as its members asked for it."""
        return Wanted(self._all[number].names, self._all[number].pattern)

    def pattern_text(self, number: int) -> str:
        """The pattern of one; empty if it has none."""
        pattern = self._all[number].pattern
        return "" if pattern is None else pattern.text

    def topics_of(self, wanted: Wanted) -> tuple[str, ...]:
        """The topics that a member would have, sorted."""
        known = None if wanted.pattern is None else self.resolved.get(wanted.pattern)
        return _union(wanted.names, wanted.resolved if known is None else known)

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members have the same topics, which may be none (SubscriptionType).

        As in Kafka they have not if they have both names and a pattern.
        """
        if not self.resolved:
            return len(self._all) <= 1
        if any(each.names or each.pattern is None for each in self._all.values()):
            return False
        return len({(pattern.text, topics) for pattern, topics in self.resolved.items()}) == 1

    def all_names(self) -> Collection[str]:
        """The topics of all members, sorted."""
        if self._names is None:
            names = {name for each in self._all.values() for name in each.names}
            names.update(*(topics for topics in self.resolved.values() if topics))
            self._names = dict.fromkeys(sorted(names))
        return self._names

    def size(self, number: int) -> int:
        """Bytes that one adds to each of its members in a picture."""
        if number not in self._sizes:
            self._sizes[number] = _size(self.names(number), self._all[number].pattern)
        return self._sizes[number]

    @property
    def bytes_of_members(self) -> int:
        """Bytes that they add to all members in a picture."""
        return sum(each.members * self.size(number) for number, each in self._all.items())

    @property
    def bytes_of_patterns(self) -> int:
        """Bytes that the patterns add to a picture, apart from the members."""
        return sum(map(_size_of, self.resolved.items()))

    def growth(self, wanted: Wanted) -> int:
        """Bytes that a picture gains if one more member has this."""
        growth = _size(self.topics_of(wanted), wanted.pattern)
        if wanted.pattern is not None and wanted.pattern not in self.resolved:
            growth += _size_of((wanted.pattern, wanted.resolved))
        return growth

    def matches_others_than(self, before: Subscriptions) -> bool:
        """Whether one of the same patterns matches other topics than it did `before`.

        One that was not resolved has matched none. As in Kafka it does not matter which of them members name.
        """
        return any((topics or ()) != (before.resolved[it] or ()) for it, topics in self.resolved.items())

    # -- changes ---------------------------------------------------------------------------------

    def add(self, wanted: Wanted) -> int:
        """Count one more member with this; the number of its subscription.

        Its pattern's topics count if nobody has resolved the pattern before.
        """
        key = wanted.names, wanted.pattern
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._next_number
            self._next_number += 1
            if wanted.pattern is not None:
                self.resolved.setdefault(wanted.pattern, wanted.resolved)
            self._all[number] = _Subscription(0, *key)
            self._names = None
        self._all[number].members += 1
        return number

    def drop(self, number: int) -> None:
        """Count one member less. A pattern that nobody has any more is forgotten."""
        subscription = self._all[number]
        subscription.members -= 1
        if subscription.members:
            return
        del self._all[number], self._numbers[subscription.names, subscription.pattern]
        self._topics.pop(number, None)
        self._sizes.pop(number, None)
        self._names = None
        pattern = subscription.pattern
        if pattern is not None and all(each.pattern != pattern for each in self._all.values()):
            del self.resolved[pattern]

    def changed_by(self, told: Iterable[PatternTopics]) -> dict[Pattern, tuple[str, ...]]:
        """The patterns of members that match other topics by these, or that nobody has resolved before."""
        resolved = ((Pattern(it.pattern, it.user), tuple(sorted(set(it.topics)))) for it in told)
        return {
            pattern: topics for pattern, topics in resolved if self.resolved.get(pattern, topics) != topics
        }

    def with_resolved(self, resolved: Mapping[Pattern, tuple[str, ...]]) -> Subscriptions:
        """The subscriptions that take the place of these where patterns of members match these topics."""
        after = copy(self)
        after.match(resolved)
        return after

    def match(self, resolved: Mapping[Pattern, tuple[str, ...]]) -> None:
        """Let patterns of members match these topics. Names and sizes of other subscriptions stay known."""
        others = {number for number, each in self._all.items() if each.pattern in resolved}
        self.resolved = {**self.resolved, **resolved}
        self._topics = {number: it for number, it in self._topics.items() if number not in others}
        self._sizes = {number: it for number, it in self._sizes.items() if number not in others}
        self._names = None


def _union(names: tuple[str, ...], resolved: Resolved) -> tuple[str, ...]:
    return tuple(sorted({*names, *resolved})) if resolved else names


def _size(topics: Collection[str], pattern: Pattern | None) -> int:
    return len(msgspec.json.encode(topics)) + (0 if pattern is None else len(pattern.text.encode()))


def _size_of(resolved: tuple[Pattern, Resolved]) -> int:
    return len(msgspec.json.encode(resolved))
