"""The signs of life of coordinators: their ticks in the clock topic."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from group_coordinator.history.rows import time_of
from group_coordinator.streaming.ticks import read_tick

__all__ = ["SILENT", "Pulse"]

SILENT = timedelta(seconds=10)
"""Two ticks are 3 s apart at most, and a batch or a takeover may be between them."""


class Pulse:
    """The newest tick that was read. One that has come while somebody listened was heard when it came.

    So a broker's clock that is wrong does not matter, as soon as there is a second tick.
    """

    def __init__(self) -> None:
        self.heard_at: datetime | None = None
        """None: nobody has looked yet, or there is no tick, as when none was written for hours."""
        self.has_looked = False
        """Whether all ticks that were there at first have been read."""
        self._has_ended = False

    def take(self, record: Any, now: datetime, *, is_new: bool) -> None:
        """Take the next record of the clock topic."""
        self.heard_at = now if is_new else min(now, time_of(record.timestamp))
        self._has_ended = read_tick(record.value).last

    def as_of(self, now: datetime) -> datetime:
        """The time up to which what is known holds: groups stand still while no coordinator runs."""
        return self.heard_at if self.heard_at is not None and self.is_silent(now) else now

    def is_silent(self, now: datetime) -> bool:
        """Whether no coordinator seems to run: the last one has stopped, or not ticked for a while."""
        if self.heard_at is None:
            return self.has_looked
        return self._has_ended or now - self.heard_at > SILENT
