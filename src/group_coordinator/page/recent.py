"""The rebalances of each group in the last day, in a bounded amount of memory.

Events are kept for a while. Of rebalances as little is kept as their number and length, so that a day of
thousands of groups has room.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple, Self

import msgspec

from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.foreign import Ms
from group_coordinator.history.rows import AT_REST, REBALANCING

DAY = timedelta(days=1)
_PART_MS, _FORGOTTEN_MS = 600_000, 3_600_000
_MOST = 200_000
"""Groups, and parts of the day of all groups, of some hundred bytes each."""


class Recent(NamedTuple):
    """The rebalances of a group in a time. `not_stable_ms`: None if the length of one is not known."""

    rebalances: int = 0
    not_stable_ms: int | None = 0
    last_cause: str | None = None

    def after(self, before: Self) -> Recent:
        """The same with the time before."""
        lengths = self.not_stable_ms, before.not_stable_ms
        return Recent(
            self.rebalances + before.rebalances,
            None if lengths[0] is None or lengths[1] is None else lengths[0] + lengths[1],
            self.last_cause or before.last_cause,
        )


class Move(msgspec.Struct, rename={"from_": "from"}):
    """As much of a `state_changed` as has to be known."""

    event_id: str
    group_id: str
    at_ms: Ms
    to: str
    cause: RebalanceCause | None = None
    rebalance_ms: Ms | None = None
    from_: str = ""


class _OfGroup:
    """The rebalances of a group: by the part of the day in which they ended, and by cause.

    `since_ms`: the begin of the one that lasts.
    """

    def __init__(self) -> None:
        self.parts: dict[tuple[int, str], Recent] = {}
        self.since_ms: int | None = None
        self.last_cause: tuple[int, str] = (0, "")
        self._newest_ms = 0
        self._ids: set[str] = set()

    def is_new(self, move: Move) -> bool:
        """Whether it is not one that comes again, as after a crash of the coordinator."""
        if move.at_ms < self._newest_ms or move.event_id in self._ids:
            return False
        if move.at_ms > self._newest_ms:
            self._newest_ms, self._ids = move.at_ms, set()
        self._ids.add(move.event_id)
        return True


class Rebalances:
    """The rebalances of all groups, complete since `begin_ms`. Its caller takes care of threads."""

    def __init__(self, begin_ms: int, most: int = _MOST) -> None:
        self.begin_ms, self._most = begin_ms, most
        self._groups: dict[str, _OfGroup] = {}
        self._size = 0

    def take(self, move: Move) -> None:
        """Take the next move of a group."""
        group = self._groups.get(move.group_id)
        if group is None:
            group = self._groups[move.group_id] = _OfGroup()
            self._size += 1
        if not group.is_new(move):
            return
        if move.cause is not None:
            group.last_cause = move.at_ms, move.cause
        if move.to in REBALANCING:
            group.since_ms = move.at_ms if group.since_ms is None else group.since_ms
            return
        group.since_ms = None
        if move.cause is None or move.from_ in AT_REST:
            return
        key = move.at_ms // _PART_MS, move.cause.value
        self._size += key not in group.parts
        # The history tells of the time before, and of that alone.
        most_ms = max(0, move.at_ms - self.begin_ms)
        took_ms = None if move.rebalance_ms is None else min(move.rebalance_ms, most_ms)
        group.parts[key] = Recent(1, took_ms).after(group.parts.get(key, Recent()))
        if self._size > self._most:
            self._forget()

    def _forget(self) -> None:
        """There is no room for an hour, the oldest, of any group. So nothing before is complete any more."""
        oldest = min(part for group in self._groups.values() for part, _ in group.parts) * _PART_MS
        self.begin_ms = max(self.begin_ms, oldest) + _FORGOTTEN_MS
        for group in self._groups.values():
            kept = {key: it for key, it in group.parts.items() if key[0] * _PART_MS >= self.begin_ms}
            group.parts = kept
        self._groups = {each: it for each, it in self._groups.items() if it.parts or it.since_ms is not None}
        self._size = sum(1 + len(group.parts) for group in self._groups.values())

    def of(self, group_id: str, since_ms: int, until_ms: int, standing_ms: int | None) -> Recent:
        """The rebalances of a group from `since_ms` to `until_ms`.

        `standing_ms`: since when its picture says that it rebalances. It may have begun before.
        """
        group = self._groups.get(group_id)
        if group is None:
            return Recent(0, 0 if standing_ms is None else max(0, until_ms - max(since_ms, standing_ms)))
        ended = Recent()
        for (part, _), each in group.parts.items():
            if (part + 1) * _PART_MS > since_ms:
                ended = each.after(ended)
        not_stable_ms = ended.not_stable_ms
        if standing_ms is not None and not_stable_ms is not None:
            begun_ms = max(since_ms, min(standing_ms, group.since_ms or standing_ms))
            not_stable_ms += max(0, until_ms - begun_ms)
        at_ms, cause = group.last_cause
        is_recent = at_ms >= since_ms or group.since_ms is not None
        return Recent(ended.rebalances, not_stable_ms, cause or None if is_recent else None)

    def caused_by(self, cause: str, since_ms: int) -> set[str]:
        """The groups that had a rebalance for this cause."""
        return {
            group_id
            for group_id, group in self._groups.items()
            if (group.since_ms is not None and group.last_cause[1] == cause)
            or any((part + 1) * _PART_MS > since_ms and it == cause for part, it in group.parts)
        }
