"""Offsets as they were: what the tables tell of them, and the events that the tables do not have yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.history.rows import OffsetChange, read_event, rows_of, time_of

if TYPE_CHECKING:
    from group_coordinator.history.reader import HistoryReader

_ONE_RESET = timedelta(seconds=10)
"""One reset is all that one client has committed without being a member, up to so long before its end.

A command has another client id in each run. Kafka's tool has the same in all, and sends one request a group.
"""
_COMMITTED, _BY_NO_MEMBER = "change = 'committed'", "change = 'committed' AND member_id = ''"
_LAST = 2**62
_EVER = datetime(2200, 1, 1, tzinfo=UTC), _LAST

Place = tuple[datetime, int]
"""The time of an event, and its offset in its partition."""
Partition = tuple[str, int]
Changes = Mapping[Partition, OffsetChange]
"""Of each partition of one group its newest change."""


class LastReset(NamedTuple):
    """The last reset of a group: the newest change of each partition `before` and in it.

    `newest`: of all partitions of the group the newest change of all, and the newest one that is no commit.
    """

    before: Changes
    reset: Changes
    newest: Changes
    newest_gone: Changes


class Past:
    """The past of some groups. Methods raise `HistoryError`.

    `after`: the events of all groups after those in the tables, in their order. Each is JSON, and comes with
    its offset in its partition. Those that the tables have as well are passed over.
    """

    def __init__(
        self, reader: HistoryReader, group_ids: Collection[str], after: Iterable[tuple[int, bytes]]
    ) -> None:
        self._reader, self._groups = reader, group_ids
        self._newest_ms: int | None = None
        told = []
        # There may be a week of them, of all groups: only those of the groups in question are kept.
        for offset, body in after:
            if (event := read_event(body)) is not None:
                self._newest_ms = max(self._newest_ms or 0, event.at_ms)
                if event.group_id in group_ids:
                    told.append((offset, event))
        # A coordinator that runs a batch again repeats its events.
        begin_ms = min((event.at_ms for _, event in told), default=None)
        known = set() if begin_ms is None else reader.events_since(time_of(begin_ms))
        self._after = [(offset, event) for offset, event in told if event.event_id not in known]

    def reaches_to(self) -> datetime | None:
        """The time of the newest event of any group; None if there is none."""
        newest = [None if self._newest_ms is None else time_of(self._newest_ms), self._reader.reaches_to()]
        return max(filter(None, newest), default=None)

    def begins(self) -> dict[str, datetime]:
        """The time of the first event of each group that is known."""
        begins = self._reader.first_events(self._groups)
        for _, event in self._after:
            begins.setdefault(event.group_id, time_of(event.at_ms))
        return begins

    def at(self, moment: datetime) -> Mapping[str, Changes]:
        """The newest changes up to a moment, by group."""
        return self._newest(dict.fromkeys(self._groups, (moment, _LAST)))

    def last_resets(self) -> dict[str, LastReset]:
        """The last reset of each group that has one."""
        ever = dict.fromkeys(self._groups, _EVER)
        resets = {
            group_id: _last_of(changes)
            for group_id, changes in self._newest(ever, _BY_NO_MEMBER, _is_by_no_member).items()
        }
        before = self._newest({each: min(row.place for row in of.values()) for each, of in resets.items()})
        gone = self._newest(ever, f"NOT ({_COMMITTED})", lambda row: row.change != "committed")
        newest = self._newest(ever)
        return {
            each: LastReset(before.get(each, {}), reset, newest[each], gone.get(each, {}))
            for each, reset in resets.items()
        }

    def _newest(
        self,
        until: Mapping[str, Place],
        where: str = "true",
        holds: Callable[[OffsetChange], bool] = lambda _: True,
    ) -> Mapping[str, Changes]:
        """Of each partition the newest change before its group's place in `until`.

        `where` in SQL, and `holds` of a row, say which changes count.
        """
        newest: defaultdict[str, dict[Partition, OffsetChange]] = defaultdict(dict)
        later = (row for offset, event in self._after for row in rows_of(event, offset))
        counting = (
            row
            for row in later
            if isinstance(row, OffsetChange)
            and row.group_id in until
            and row.place < until[row.group_id]
            and holds(row)
        )
        for row in sorted([*self._reader.newest_offsets(until, where), *counting], key=lambda row: row.place):
            newest[row.group_id][row.topic, row.partition] = row
        return newest


def _last_of(by_hand: Changes) -> Changes:
    """Those that belong to the last reset."""
    end = max(by_hand.values(), key=lambda row: row.place)
    return {
        each: row
        for each, row in by_hand.items()
        if row.client_id == end.client_id and end.at - row.at <= _ONE_RESET
    }


def _is_by_no_member(row: OffsetChange) -> bool:
    return row.change == "committed" and row.member_id == ""
