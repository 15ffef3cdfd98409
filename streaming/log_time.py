"""Log time: what deadlines are measured by. It is this machine's monotonic clock, set and steered by Kafka's.

Brokers stamp requests by clocks of their own. So log time has to be theirs, or requests would seem early or
late. But one broker's clock may jump, and no member must expire by that. The coordinator therefore counts log
time by its own monotonic clock, which no one sets. Each tick that a broker appends shows how far the two are
apart:

- By a little, since no two clocks are equally fast. Log time goes up to 1 % faster or slower until it agrees.
- By more than clocks may differ, while this machine's wall clock disagrees with the broker's as well. The
  broker's clock is wrong, and log time goes on as before.
- By so much, and the wall clock agrees with the broker's. Then log time is wrong. If it is behind, this
  machine was suspended, or its virtual machine was moved: log time is set, and the jump is an outage, as any
  late tick is. If it is ahead, log time goes slower until it agrees, because it never goes back.

Nothing here asks for the time: it is an argument.
"""

from __future__ import annotations

from typing import NamedTuple

_STEERED = 0.01
"""The part of a time by which it may take longer or shorter. A session of 10 s ends 0.1 s early at worst."""


class Moment(NamedTuple):
    """A moment, in ms, by both of this machine's clocks.

    `monotonic_ms`: since some moment before; nobody can set it. `wall_ms`: since the epoch.
    """

    monotonic_ms: float
    wall_ms: float


class LogTime:
    """Log time, in ms since the epoch. It begins with the first tick that is appended.

    Args:
        differ_ms: by how much clocks that are right may differ.
        reached_ms: the latest log time that is known. Log time is never earlier.
    """

    def __init__(self, differ_ms: int, reached_ms: int = 0) -> None:
        self._differ_ms = differ_ms
        self._reached_ms = reached_ms
        self._ahead_ms: float | None = None
        """How far log time is ahead of the monotonic clock."""
        self._steered_at_ms = 0.0
        self.skew_ms = 0
        """How far the clock of the ticks' broker was ahead of log time when it appended the newest one."""

    def at(self, moment: Moment) -> int:
        """The log time of that moment. Asked after the first tick was appended only."""
        assert self._ahead_ms is not None, "log time has begun"  # noqa: S101
        return round(moment.monotonic_ms + self._ahead_ms)

    @property
    def broker_is_off(self) -> bool:
        """Whether the clock of the ticks' broker differs from log time by more than clocks may."""
        return abs(self.skew_ms) > self._differ_ms

    def appended(self, sent: Moment, at_ms: int, known: Moment) -> None:
        """Take in that a tick was appended at `at_ms`, by the broker's clock, between `sent` and `known`."""
        off_wall_ms = _outside(at_ms, sent.wall_ms, known.wall_ms)
        wall_agrees = abs(off_wall_ms) <= self._differ_ms
        if self._ahead_ms is None:
            # The earlier one, if they differ: log time can be set forward, and never back.
            begun_ms = known.wall_ms + (off_wall_ms if wall_agrees else min(off_wall_ms, 0))
            self._ahead_ms = max(begun_ms, self._reached_ms) - known.monotonic_ms
            self._steered_at_ms = known.monotonic_ms
        off_ms = _outside(at_ms, self.at(sent), self.at(known))
        is_off = abs(off_ms) > self._differ_ms
        passed_ms = known.monotonic_ms - self._steered_at_ms
        self._steered_at_ms = known.monotonic_ms
        if is_off and wall_agrees and off_ms > 0:
            self._ahead_ms += off_ms
        elif not is_off or wall_agrees:
            most_ms = passed_ms * _STEERED
            self._ahead_ms += min(max(off_ms, -most_ms), most_ms)
        self.skew_ms = round(_outside(at_ms, self.at(sent), self.at(known)))


def _outside(at_ms: float, first_ms: float, last_ms: float) -> float:
    """How far a time is after `last_ms`, or (negative) before `first_ms`; 0 between them."""
    return max(at_ms - last_ms, 0) + min(at_ms - first_ms, 0)
