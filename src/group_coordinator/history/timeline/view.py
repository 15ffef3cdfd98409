"""Rows as a picture needs them: names of members, places of spans, and times as text."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Protocol

from group_coordinator.history.rows import GenerationMember
from group_coordinator.history.story import Kinds, Story
from group_coordinator.history.timeline.axis import Axis
from group_coordinator.history.timeline.names import Names
from group_coordinator.history.timeline.pieces import Place
from group_coordinator.history.timeline.text import span_of_time, writer

ALWAYS, NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Lasting(Protocol):
    """Something with a beginning and an end; None: before everything, or not yet."""

    @property
    def since(self) -> datetime | None:
        """The time at which it began."""

    @property
    def until(self) -> datetime | None:
        """The time at which it ended."""


class View(Names):
    """A story as seen along an axis."""

    def __init__(self, story: Story, axis: Axis) -> None:
        super().__init__(story)
        self.story = story
        self.axis = axis
        self.write = writer(axis.since, axis.until)
        self.generations = Generations(story.generations)
        self.kinds = Kinds(story.transitions)

    def shows(self, span: Lasting) -> bool:
        """Whether any of it is on the axis."""
        return (span.since is None or span.since < self.axis.until) and (
            span.until is None or span.until > self.axis.since
        )

    def place(self, span: Lasting) -> Place:
        """Its place on the axis."""
        begin = self.axis.left if span.since is None else self.axis.x(span.since)
        end = self.axis.right if span.until is None else self.axis.x(span.until)
        return Place(begin, max(begin, end))

    def places(self, first: Lasting, last: Lasting) -> Place:
        """Their common place."""
        return Place(self.place(first).begin, self.place(last).end)

    def when(self, first: Lasting, last: Lasting) -> str:
        """The time from the beginning of `first` to the end of `last`, in words."""
        if first.since is None:
            return "all the time" if last.until is None else f"until {self.write(last.until)}"
        if last.until is None:
            return f"from {self.write(first.since)} on"
        length = span_of_time(last.until - first.since)
        return f"{self.write(first.since)} - {self.write(last.until)} ({length})"


class Generations:
    """The leaders of generations, and what was shared. A deleted group begins again at generation 1."""

    def __init__(self, rows: Iterable[GenerationMember]) -> None:
        self._begun: defaultdict[int, list[datetime]] = defaultdict(list)
        self._leaders: dict[tuple[int, datetime], str] = {}
        self._types: dict[tuple[int, datetime], str] = {}
        for each in rows:
            key = (each.generation_id, each.at)
            if key not in self._types:
                self._begun[each.generation_id].append(each.at)
                self._types[key] = each.protocol_type
            if each.is_leader:
                self._leaders[key] = each.member_id
        for times in self._begun.values():
            times.sort()

    def leader(self, generation_id: int, at: datetime | None) -> str | None:
        """Return the leader of the generation of that time; None if it is not known."""
        return self._leaders.get(self._key(generation_id, at))

    def protocol_type(self, generation_id: int, at: datetime | None) -> str:
        """It is "" if that is not known."""
        return self._types.get(self._key(generation_id, at), "")

    def _key(self, generation_id: int, at: datetime | None) -> tuple[int, datetime]:
        times = self._begun.get(generation_id, [])
        place = bisect_right(times, at or ALWAYS)
        return generation_id, times[place - 1] if place else ALWAYS
