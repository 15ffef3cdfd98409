"""The schedule of the clock: it ticks steadily, and besides when a deadline is due.

A batch with a tick costs as much as a batch with requests. So while nothing is due, ticks only show that the
coordinator lives. A deadline passes in two steps: the batch of one tick moves the watermark past it, and the
next batch fires it. So another tick follows as soon as the first one is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from group_coordinator.streaming.settings import CoordinatorSettings
    from group_coordinator.streaming.timers import Timers


class Pace(NamedTuple):
    """The times of a clock, in ms.

    `interval_ms`: between two regular ticks. `max_gap_ms`: by which no tick may be later than the one before,
    once time counts; then the clock stops. `ahead_ms`: by which time may be ahead of the newest tick before
    which all requests were read. `slack_ms`: by which the watermark is behind the newest tick. `quiet_ms`: at
    most between two ticks while no requests come. `leeway_ms`: by how much later they may be then.
    """

    interval_ms: int
    max_gap_ms: int
    ahead_ms: int
    slack_ms: int = 0
    quiet_ms: int = 0
    leeway_ms: int = 0

    @classmethod
    def of(cls, settings: CoordinatorSettings) -> Self:
        """The pace with these settings."""
        max_gap_ms = settings.clock_max_gap_ms
        # Between two triggers nothing is read. It is no more, because a request that is earlier is taken for
        # one of a clock that is set back.
        ahead_ms = settings.clocks_differ_ms + settings.trigger_interval_ms
        interval_ms = settings.clock_interval_ms
        # With more, time would wait for the reader, which has read no newer tick.
        quiet_ms = max(interval_ms, min(3 * interval_ms, max_gap_ms))
        # Or a busy machine, on which ticks are late, would have outages.
        leeway_ms = max_gap_ms // 2
        return cls(interval_ms, max_gap_ms, ahead_ms, settings.clock_slack_ms, quiet_ms, leeway_ms)

    @property
    def most_ahead_ms(self) -> int:
        """Milliseconds by which time may be ahead while no requests come, because ticks have leeway then."""
        return self.ahead_ms + self.leeway_ms


class Schedule:
    """Says when the next tick is to be written, in ms of log time.

    Regular ticks are at multiples of the interval, and fewer of them while no requests come. Those for
    deadlines keep half of it after any other. `timers`: the deadlines that are known.
    """

    def __init__(self, pace: Pace, timers: Timers) -> None:
        self._pace, self._timers = pace, timers
        self._newest_ms = 0
        self._passed_ms: int | None = None
        """Up to here deadlines pass with the newest tick; None while time stands still."""
        self._to_read: int | None = None
        """The offset of the tick that is to be read before the one that lets deadlines pass."""

    def resume(self) -> None:
        """Begin to look at deadlines: from now on time counts."""
        self._passed_ms = self._passes_ms(self._newest_ms)

    def ticked(self, at_ms: int, offset: int, read: int = 0) -> None:
        """Take the newest tick, of that log time and at that offset. `read`: as for `next_ms`."""
        follows = self._follows(read)
        self._newest_ms = at_ms
        self._to_read = None
        if follows:
            # Deadlines that it has passed itself are due half an interval later, or ticks would follow ticks.
            return
        self._timers.passed_ms = self._passes_ms(at_ms)
        if self._passed_ms is not None:
            due_ms = self._timers.next_ms(self._passed_ms)
            self._passed_ms = self._timers.passed_ms
            if due_ms is not None and due_ms <= self._passed_ms:
                self._to_read = offset

    def next_ms(self, read: int, *, is_quiet: bool = False) -> int:
        """Return when the next tick is due.

        `read`: the offset of the tick that is to be read next. `is_quiet`: whether no requests come.
        """
        if self._follows(read):
            return self._newest_ms
        interval_ms = self._pace.interval_ms
        half_ms = interval_ms // 2
        regular_ms = -(-(self._newest_ms + half_ms) // interval_ms) * interval_ms
        if is_quiet:
            latest_ms = (self._newest_ms + self._pace.quiet_ms) // interval_ms * interval_ms
            regular_ms = max(regular_ms, latest_ms)
        due_ms = None if self._passed_ms is None else self._timers.next_ms(self._passed_ms)
        if due_ms is None:
            return regular_ms
        passing_ms = due_ms + self._pace.slack_ms + 1
        return min(regular_ms, max(passing_ms, self._newest_ms + half_ms))

    def _follows(self, read: int) -> bool:
        return self._to_read is not None and read > self._to_read

    def _passes_ms(self, tick_ms: int) -> int:
        """The latest deadline that the watermark of that tick is later than."""
        return tick_ms - self._pace.slack_ms - 1

    @property
    def waits(self) -> bool:
        """Whether the next tick waits for the newest to be read."""
        return self._to_read is not None
