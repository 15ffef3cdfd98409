"""One group over some time: all that a timeline or a page shows of it, wherever it was read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar

import msgspec

from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.history.fold import fold
from group_coordinator.history.rows import (
    ON_THE_WAY,
    REBALANCING,
    GenerationMember,
    Join,
    OfEvent,
    OffsetChange,
    Row,
    SignOfLife,
    Transition,
    sign_of_life,
)
from group_coordinator.history.spans import Assignment, Membership, Span, Wait

AnyRow = TypeVar("AnyRow", bound=Row)
T = TypeVar("T")


class Outage(msgspec.Struct, frozen=True):
    """A time in which no coordinator ran."""

    since: datetime
    until: datetime


class LagPoint(msgspec.Struct, frozen=True):
    """A measurement of the group's lag.

    `until`: the end of the time of which it tells, if no other one follows. `age_ms`: how old the oldest
    record was that the group had not committed past; with `at_least` it may have been older.
    """

    at: datetime
    until: datetime
    records: int
    age_ms: int
    at_least: bool


class Story(msgspec.Struct, kw_only=True):
    """Rows of the tables, those of each table in the order of time.

    Spans are there that had not ended when the time began. Events do not tell of `outages` and of `lag`; a
    caller that knows of them adds them.
    """

    group_id: str
    transitions: list[Transition] = []
    joins: list[Join] = []
    generations: list[GenerationMember] = []
    memberships: list[Membership] = []
    assignments: list[Assignment] = []
    waits: list[Wait] = []
    """Partitions that one member still held, and another one was to have (consumer protocol)."""
    resets: list[OffsetChange] = []
    """Offsets that were set and deleted by hand."""
    signs: list[SignOfLife] = []
    """Signs of life of members, as far as they are known: near misses, and joins and commits before sessions
    that expired."""
    outages: list[Outage] = []
    lag: list[LagPoint] = []

    @classmethod
    def of_events(cls, group_id: str, events: Iterable[tuple[int, AnyEvent]]) -> Self:
        """The story that the group's events tell, each with its offset: once, and in order."""
        told = list(events)
        story = cls.of_rows(group_id, fold(told))
        signs = (sign_of_life(event, log_offset) for log_offset, event in told)
        story.signs = sorted((each for each in signs if each is not None), key=_place)
        return story

    @classmethod
    def of_rows(cls, group_id: str, rows: Iterable[Row]) -> Self:
        """The story that rows of the tables tell. They may come in any order."""
        every = list(rows)

        def of(kind: type[AnyRow]) -> list[AnyRow]:
            return sorted((row for row in every if isinstance(row, kind)), key=_place)

        return cls(
            group_id=group_id,
            transitions=of(Transition),
            joins=of(Join),
            generations=of(GenerationMember),
            memberships=of(Membership),
            assignments=of(Assignment),
            waits=of(Wait),
            resets=[each for each in of(OffsetChange) if each.is_by_hand],
        )


class Kinds:
    """The kind of a group by time: that of the members' protocol. Only an Empty group changes it."""

    def __init__(self, transitions: Iterable[Transition]) -> None:
        moves = [each for each in transitions if each.to_state in REBALANCING]
        self._times = [each.at for each in moves]
        self._are_consumers = [each.to_state in ON_THE_WAY for each in moves]

    def is_consumer(self, at: datetime | None) -> bool:
        """Whether its members spoke the consumer protocol at that time, as far as its states tell."""
        if not self._times:
            return False
        place = 0 if at is None else bisect_right(self._times, at) - 1
        return self._are_consumers[max(place, 0)]


def between(items: Sequence[T], first: Any, last: Any, key: Callable[[T], Any]) -> Sequence[T]:
    """The items whose `key` is from `first` to `last`, both included; they are in its order."""
    return items[bisect_left(items, first, key=key) : bisect_right(items, last, key=key)]


def _place(row: Row) -> tuple[float, int]:
    if isinstance(row, OfEvent):
        return row.at.timestamp(), row.log_offset
    assert isinstance(row, Span)  # noqa: S101 - there are no other rows
    # A span that began before the history did comes first.
    return (float("-inf") if row.since is None else row.since.timestamp()), 0
