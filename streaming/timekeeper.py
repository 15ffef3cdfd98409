"""The keeper of time: how far log time may come with each tick.

    keeper.hold(at_ms)           time may come up to there, and stands still
    keeper.resume(now_ms)        time counts from now on
    keeper.coming_ms(now_ms, …)  the time that a tick lets come that is written now
    keeper.ticked(now_ms, …)     that tick is in the log

Time comes up to now, and no further than a little ahead of two others. One is the newest tick before which
all requests were read: an unread one may be the heartbeat of a member that would expire. The other is when
every request partition has taken requests. A tick that comes too late after the one before lets no time come:
nobody was answered meanwhile, so that is an outage.

Nothing here asks for the time or waits: all of it comes as arguments, in ms of log time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from group_coordinator.streaming.schedule import Pace

__all__ = ["Timekeeper"]


class Timekeeper:
    """Time, of one clock. It stands still until `resume`, and a late tick harms nobody until then."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._counts = False
        self._held_ms = 0
        """The time at which the clock stands while time does not count."""
        self._latest_ms = 0
        """If the next tick is later than that, it lets no time come."""
        self._read_ms = 0
        """The time up to which all requests were read, while time counts."""
        self._unread: deque[tuple[int, int]] = deque()
        """The ticks after that one, with their offsets."""
        self.newest_ms: int | None = None
        """The time of the newest tick; None before the first."""

    def hold(self, at_ms: int) -> None:
        """Let time come up to `at_ms`, and stand still there."""
        self._held_ms = at_ms

    def resume(self, now_ms: int) -> None:
        """Let time count from now on."""
        self._read_ms = now_ms
        self._counts = True

    def coming_ms(self, now_ms: int, read: int | None, unwritten_ms: int, *, is_quiet: bool) -> int:
        """Return the time that a tick lets come which is written now; 0 for none.

        `read`: the offset of the first tick of which it is not sure that all requests before it were read;
        None: time does not wait for the reader. `unwritten_ms`: how long ago every partition has surely taken
        requests. `is_quiet`: whether no requests come, so that ticks are fewer.
        """
        if not self._counts:
            self._unread.clear()
            return min(now_ms, self._held_ms)
        if now_ms > self._latest_ms:
            return 0
        if read is None:
            self._unread.clear()
            return now_ms
        while self._unread and self._unread[0][0] < read:
            _, read_ms = self._unread.popleft()
            self._read_ms = max(self._read_ms, read_ms)
        ahead_ms = self._pace.most_ahead_ms if is_quiet else self._pace.ahead_ms
        return min(now_ms, self._read_ms + ahead_ms, now_ms - unwritten_ms + ahead_ms)

    def ticked(self, at_ms: int, offset: int, leeway_ms: int) -> int | None:
        """Take in that the tick of that time is in the log.

        `leeway_ms`: by how much the next one may be later than the greatest gap. Returns for how long the
        clock stood still, if that was too long. Then it is of no use any more.
        """
        before_ms, is_late = self.newest_ms, self._counts and at_ms > self._latest_ms
        self._unread.append((offset, at_ms))
        self.newest_ms = at_ms
        self._latest_ms = at_ms + self._pace.max_gap_ms + leeway_ms
        return at_ms - before_ms if is_late and before_ms is not None else None
