"""The sides that the page shows: the groups of the coordinator, those at the brokers, or both as one list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version

from group_coordinator.history.rows import ms_of
from group_coordinator.page.answers import Asked, Counted, Groups, Side, Status, Totals
from group_coordinator.page.queries import GroupsQuery
from group_coordinator.page.questions import Found, Questions, in_order, some
from group_coordinator.page.web import NotFoundError

_VERSION = version("group-coordinator")
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
        return self._status([each.found(GroupsQuery()) for each in self._sides.values()])

    def groups(self, query: GroupsQuery) -> Groups:
        """Groups of all sides, in the order that was asked for."""
        found = [each.found(query) for each in self._sides.values()]
        lines = [line for each in found for line in each.lines if query.of in (None, line.of)]
        shown, following = some(in_order(lines, query), query.offset, query.limit)
        return Groups(self._status(found), len(lines), shown, following, _asked(found), _counted(found))

    def _status(self, found: list[Found]) -> Status:
        sides = self._sides.values()
        return Status(
            version=_VERSION,
            bootstrap_servers=self.first.bootstrap_servers,
            problem="; ".join(each.problem for each in sides if each.problem is not None) or None,
            as_of_ms=min(ms_of(each.as_of()) for each in sides),
            coordinator_silent_ms=self.first.silent_ms,
            has_history=self.has_history,
            has_forgotten=any(each.has_forgotten for each in sides),
            totals=_totals(found),
        )


def _totals(found: list[Found]) -> Totals:
    listed = [group for each in found for group in each.listed]
    lags = [each.lags.get(group.group_id) for each in found for group in each.listed]
    records = [each.records for each in lags if each is not None]
    return Totals(
        groups=len(listed),
        members=sum(each.members for each in listed),
        states=dict(sorted(Counter(each.state for each in listed).items())),
        records=sum(records) if records else None,
        measured=sum(lag.trend is not None for each in found for lag in each.lags.values()),
        sides={each.of: len(each.listed) for each in found},
        types=dict(sorted(Counter(each.group_type for each in listed).items())),
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
