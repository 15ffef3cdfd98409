"""The signs of life of coordinators: their ticks in the clock topic."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from group_coordinator.history.rows import time_of
from group_coordinator.jobs.settings import JobSettings
from group_coordinator.streaming.ticks import read_tick

MAX_GAP = timedelta(milliseconds=JobSettings().clock_max_gap_ms)
"""The default of `clock.max.gap.ms`."""
_TAKEOVER = timedelta(seconds=7)
"""A long batch or a takeover may be between two ticks."""


class Pulse:
    """The newest tick that was read. One that has come while somebody listened was heard when it came.

    So a broker's clock that is wrong does not matter, as soon as there is a second tick. `max_gap`: the
    coordinator's `clock.max.gap.ms`.
    """

    def __init__(self, max_gap: timedelta = MAX_GAP) -> None:
        self.heard_at: datetime | None = None
        """None: nobody has looked yet, or there is no tick, as when none was written for hours."""
        self.has_looked = False
        """Whether all ticks that were there at first have been read."""
        self._has_ended = False
        self._may_be_silent = self._between_ticks = max_gap + _TAKEOVER

    def take(self, record: Any, now: datetime, *, is_new: bool) -> None:
        """Take the next record of the clock topic."""
        self.heard_at = now if is_new else min(now, time_of(record.timestamp))
        tick = read_tick(record.value)
        self._has_ended = tick.last
        self._may_be_silent = self._between_ticks + timedelta(milliseconds=tick.leeway_ms)

    def as_of(self, now: datetime) -> datetime:
        """The time up to which what is known holds: groups stand still while no coordinator runs."""
        return self.heard_at if self.heard_at is not None and self.is_silent(now) else now

    def is_silent(self, now: datetime) -> bool:
        """Whether no coordinator seems to run: the last one has stopped, or not ticked for a while."""
        if self.heard_at is None:
            return self.has_looked
        return self._has_ended or now - self.heard_at > self._may_be_silent
