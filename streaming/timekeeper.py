"""The keeper of time: how far log time may come with each tick.

    keeper.hold(at_ms)           time may come up to there, and stands still
    keeper.resume(now_ms)        time counts from now on
    keeper.coming_ms(now_ms, …)  the time that a tick lets come that is written now
    keeper.ticked(now_ms, …)     that tick is in the log

Time comes up to now, and no further than a little ahead of two others. One is the newest tick before which
all requests were read: an unread one may be the heartbeat of a member that would expire. Nobody can read what
a partition holds back. So a tick counts only if each one takes the probe beside it before the next tick. The
other is when every request partition has taken requests. If a tick comes too late after the one before, no
time comes any more. Nor does it if a partition was away for as long. Members could not be heard then, so that
is an outage.

Nothing here asks for the time or waits: all of it comes as arguments, in ms of log time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from group_coordinator.streaming.schedule import Pace


class Timekeeper:
    """Time, of one clock. It stands still until `resume`, and a late tick harms nobody until then."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._counts = False
        self._held_ms = 0
        """The time at which the clock stands while time does not count."""
        self._written_ms = 0
        """When all partitions had taken requests, as of the newest tick while time counts."""
        self._taken_ms = 0
        """The same, also while time stands still."""
        self._leeways_ms = 0, 0
        """By how much ticks may be later than the greatest gap: the newest one, and the next one."""
        self._read_ms: int | None = None
        """The time up to which all requests were read by the query for which time counts."""
        self._unread: deque[tuple[int, int]] = deque()
        """The ticks after that one: their offsets, and up to when all is read with them."""
        self.newest_ms: int | None = None
        """The time of the newest tick; None before the first."""
        self.late: str | None = None
        """Why no time comes any more, if so."""

    @property
    def has_leeway(self) -> bool:
        """Whether the next tick may be later than the greatest gap."""
        return self._leeways_ms[1] > 0

    def hold(self, at_ms: int) -> None:
        """Let time come up to `at_ms`, and stand still there."""
        self._held_ms = at_ms

    def resume(self, now_ms: int) -> None:
        """Let time count from now on."""
        self._written_ms = now_ms
        self._counts = True

    def coming_ms(self, now_ms: int, read: int, unwritten_ms: int, *, is_quiet: bool) -> int:
        """Return the time that a tick lets come which is written now; 0 for none.

        `read`: the offset of the first tick of which it is not sure that all requests before it were read.
        `unwritten_ms`: how long ago every partition has surely taken requests. `is_quiet`: whether no
        requests come, so that ticks are fewer.
        """
        written_ms = now_ms - unwritten_ms
        before_ms, self._taken_ms = self._taken_ms, written_ms
        if not self._counts:
            return min(now_ms, self._held_ms)
        if (late := self._late(now_ms, written_ms)) is not None:
            self.late = late
            return 0
        if self._unread:
            offset, ticked_ms = self._unread[-1]
            if written_ms < ticked_ms - self._pace.interval_ms // 2:
                # A partition has not taken the probe beside that tick. It held back what is still to be read.
                self._unread[-1] = offset, before_ms
        self._written_ms = max(self._written_ms, written_ms)
        while self._unread and self._unread[0][0] < read:
            _, self._read_ms = self._unread.popleft()
        if self._read_ms is None:
            # Some may have come in the outage that is over.
            return 0
        ahead_ms = self._pace.most_ahead_ms if is_quiet else self._pace.ahead_ms
        return min(now_ms, self._read_ms + ahead_ms, written_ms + ahead_ms)

    def ticked(self, at_ms: int, offset: int, leeway_ms: int) -> None:
        """Take in that the tick of that time is in the log.

        `leeway_ms`: by how much the next one may be later than the greatest gap.
        """
        self._unread.append((offset, at_ms))
        self.newest_ms = at_ms
        self._leeways_ms = self._leeways_ms[1], leeway_ms

    def _late(self, now_ms: int, written_ms: int) -> str | None:
        """Why no time may come, if so: one of these is later than it may be after the newest tick."""
        before_ms, leeway_ms = self._leeways_ms
        ticked_ms = now_ms if self.newest_ms is None else self.newest_ms
        if now_ms > ticked_ms + self._pace.max_gap_ms + leeway_ms:
            return f"the clock stood still for {now_ms - ticked_ms} ms"
        # The newest probe that was taken was sent beside the tick before, as a rule.
        if written_ms > self._written_ms + self._pace.max_gap_ms + max(before_ms, leeway_ms):
            return f"a request partition took no requests for {written_ms - self._written_ms} ms"
        return None
