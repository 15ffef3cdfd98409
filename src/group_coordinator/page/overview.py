"""The last day of all groups: told live, and by the history as far as it was before.

The page reads the events of some hours. The history is asked for the time before in the background, so it
delays no answer. Without a history, rebalances count since those hours began, and the page says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from group_coordinator.history.errors import HistoryError
from group_coordinator.history.rows import REBALANCING, ms_of, time_of
from group_coordinator.page.asking import Asking
from group_coordinator.page.memory import Listed, Memory
from group_coordinator.page.queries import GroupsQuery
from group_coordinator.page.recent import DAY, Recent

if TYPE_CHECKING:
    from group_coordinator.history.reader import HistoryReader

_FRESH_S = 60.0


class _Asked(NamedTuple):
    """A question to the history. `begin_ms`: the end of the time that is asked about; None: now."""

    begin_ms: int | None = None
    cause: str | None = None
    member: str | None = None
    topic: str | None = None


class _Told(NamedTuple):
    """Its answer, of the time since `since_ms`; or the reason why there is none."""

    since_ms: int
    groups: Mapping[str, Recent]
    problem: str | None = None


class LastDay(NamedTuple):
    """The rebalances of groups, by id, since `since_ms`. `problem`: why that is not a whole day.

    `chosen`: the groups with the rebalance, member or topic that was asked for; None: all.
    """

    since_ms: int
    groups: Mapping[str, Recent]
    problem: str | None
    chosen: set[str] | None


class Overview:
    """Tells of the last day of the groups of one side. `past` opens the history."""

    def __init__(self, past: Callable[[], HistoryReader] | None, clock: Callable[[], datetime]) -> None:
        self._past, self._clock = past, clock
        self._asking: Asking[_Asked, _Told] = Asking(self._ask, "ui-overview", _FRESH_S)

    def of(self, memory: Memory, listed: Iterable[Listed], as_of: datetime, query: GroupsQuery) -> LastDay:
        """The last day of these groups."""
        until_ms = ms_of(as_of)
        begin_ms = memory.begin_ms()
        since_ms = max(begin_ms, until_ms - DAY // timedelta(milliseconds=1))
        told = self._told(_Asked(begin_ms), since_ms)
        standing = {
            each.group_id: ms_of(each.since) if each.state in REBALANCING else None for each in listed
        }
        groups = memory.recent(standing, since_ms, until_ms)
        if told is not None and told.problem is None:
            since_ms = told.since_ms
            groups = {each: it.after(told.groups.get(each, Recent())) for each, it in groups.items()}
        return LastDay(since_ms, groups, told and told.problem, self._chosen(memory, since_ms, query))

    def _told(self, asked: _Asked, since_ms: int) -> _Told | None:
        """The newest answer of the history; None if there is none yet, or if it is not needed."""
        # A page that has run for a day knows the day.
        is_needed = self._past is not None and asked.begin_ms in (None, since_ms)
        return self._asking.newest(asked) if is_needed else None

    def _chosen(self, memory: Memory, since_ms: int, query: GroupsQuery) -> set[str] | None:
        """The groups that are asked for, known live or by the history; None: all."""
        found = []
        if query.cause:
            found.append((memory.caused_by(query.cause, since_ms), _Asked(cause=query.cause)))
        if query.member:
            found.append((memory.with_member(query.member, since_ms), _Asked(member=query.member)))
        if query.topic:
            found.append((memory.owning(query.topic), _Asked(topic=query.topic)))
        chosen: set[str] | None = None
        for groups, asked in found:
            told = self._told(asked, since_ms)
            every = groups if told is None else groups | told.groups.keys()
            chosen = every if chosen is None else chosen & every
        return chosen

    def _ask(self, asked: _Asked) -> _Told:
        assert self._past is not None  # noqa: S101 - nobody asks without a history
        now = self._clock()
        since, until = now - DAY, now if asked.begin_ms is None else time_of(asked.begin_ms)
        chosen = {"cause": asked.cause, "member": asked.member, "topic": asked.topic}
        try:
            rows = self._past().fleet(since, max(since, until), **chosen).to_pylist()
        except HistoryError as error:
            return _Told(ms_of(until), {}, str(error))
        return _Told(ms_of(since), {row["group_id"]: _recent(row) for row in rows})


def _recent(row: Mapping[str, Any]) -> Recent:
    return Recent(row["rebalances"], row["not_stable_ms"], row["last_cause"])
