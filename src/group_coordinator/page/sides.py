"""The sides that the page shows: the groups of the coordinator, those at the brokers, or both as one list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from operator import add

from group_coordinator.page.answers import Asked, Counted, Groups, Side, Status, Totals
from group_coordinator.page.queries import GroupsQuery
from group_coordinator.page.questions import Found, Questions, in_order, some
from group_coordinator.page.web import NotFoundError

__all__ = ["Sides", "Where"]

Where = Mapping[str, str]
"""The part of an address that names a group: its id, and its side where both are shown."""


class Sides:
    """The questions of one or both sides. A group id may be on both, so a question of a group names one."""

    def __init__(self, *sides: Questions) -> None:
        self._sides = {each.of: each for each in sides}
        self.first = sides[0]

    @property
    def are_both(self) -> bool:
        """Whether there are two."""
        return len(self._sides) > 1

    @property
    def names(self) -> list[Side]:
        """The names of the sides."""
        return list(self._sides)

    @property
    def has_history(self) -> bool:
        """Whether any of them has a history."""
        return any(each.has_history for each in self._sides.values())

    def of(self, side: str | None) -> Questions:
        """The questions of a side; None: the one that is shown first. Raises `NotFoundError`."""
        if side is None:
            return self.first
        if side not in self._sides:
            raise NotFoundError(f"this page does not show groups of side {side!r}: start it with --of both")
        return self._sides[side]

    def where(self, group_id: str, side: Side) -> Where:
        """The place of a group in an address."""
        return {"group_id": group_id, "of": side} if self.are_both else {"group_id": group_id}

    def status(self) -> Status:
        """The state of all sides together."""
        return _together([each.found(GroupsQuery()).status for each in self._sides.values()])

    def groups(self, query: GroupsQuery) -> Groups:
        """Groups of all sides, in the order that was asked for."""
        found = [each.found(query) for each in self._sides.values()]
        lines = [line for each in found for line in each.lines if query.of in (None, line.of)]
        shown, following = some(in_order(lines, query), query.offset, query.limit)
        status = _together([each.status for each in found])
        return Groups(status, len(lines), shown, following, _asked(found), _counted(found))


def _together(of_sides: list[Status]) -> Status:
    first = of_sides[0]
    if len(of_sides) == 1:
        return first
    return Status(
        version=first.version,
        bootstrap_servers=first.bootstrap_servers,
        problem="; ".join(each.problem for each in of_sides if each.problem is not None) or None,
        as_of_ms=min(each.as_of_ms for each in of_sides),
        coordinator_silent_ms=first.coordinator_silent_ms,
        has_history=any(each.has_history for each in of_sides),
        has_forgotten=any(each.has_forgotten for each in of_sides),
        totals=_sum([each.totals for each in of_sides]),
    )


def _sum(totals: list[Totals]) -> Totals:
    records = [each.records for each in totals if each.records is not None]
    return Totals(
        groups=sum(each.groups for each in totals),
        members=sum(each.members for each in totals),
        states=dict(sorted(reduce(add, (Counter(each.states) for each in totals)).items())),
        records=sum(records) if records else None,
        measured=sum(each.measured for each in totals),
        sides={side: number for each in totals for side, number in each.sides.items()},
        types=dict(sorted(reduce(add, (Counter(each.types) for each in totals)).items())),
    )


def _asked(found: list[Found]) -> Asked | None:
    """The oldest answer about groups that are not measured, or what is wrong with one."""
    asked = [each.asked for each in found if each.are_asked]
    known = [each for each in asked if each is not None]
    if len(known) < len(asked) or not known:
        return None
    return min(known, key=lambda each: (each.problem is None, each.at_ms))


def _counted(found: list[Found]) -> Counted:
    """The time since which rebalances of all sides count, and what is wrong with one."""
    problems = [each.counted.problem for each in found if each.counted.problem is not None]
    return Counted(max(each.counted.since_ms for each in found), "; ".join(problems) or None)
