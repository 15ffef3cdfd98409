"""The clock learns here when deadlines of groups are due, because a deadline passes when a tick comes.

Every call of the stateful function tells how it has moved the deadline of its group's members, and the driver
adds that up. It does not know groups in which nothing has happened since it began to. Their deadlines
pass with the next regular ticks. So they do if a task was tried again, and has told its moves twice.
"""

from __future__ import annotations

import math
from collections import Counter

_UNIT_MS = 100
_SPARE_S = 60


class Timers:
    """Counts the groups that have a timer at a time, in ms of log time, rounded up to tenths of a second.

    On an executor these are moves, which may be negative. Another thread may ask while the driver adds.
    """

    def __init__(self) -> None:
        self._groups: Counter[int] = Counter()
        self.passed_ms = 0
        """Up to here deadlines have passed; the driver keeps none before it. 0: the driver keeps none."""

    def move(self, from_ms: int | None, to_ms: int | None) -> None:
        """Take the timer of one group, which was at `from_ms`, or nowhere."""
        if from_ms != to_ms:
            if from_ms is not None:
                self._groups[_rounded(from_ms)] -= 1
            if to_ms is not None:
                self._groups[_rounded(to_ms)] += 1

    def add(self, moves: Timers) -> None:
        """Add the moves that a task has told."""
        added = self._groups.copy()
        added.update(moves._groups)
        passed_ms = self.passed_ms or math.inf
        # A new one, because another thread may be reading this.
        self._groups = Counter(
            {at_ms: count for at_ms, count in added.items() if count > 0 and at_ms > passed_ms}
        )

    def forget(self) -> None:
        """Begin again, because another coordinator may have moved some meanwhile."""
        self._groups = Counter()

    @property
    def count(self) -> int:
        """The number of groups that have a timer, as far as is known."""
        return self._groups.total()

    def next_ms(self, after_ms: int) -> int | None:
        """The earliest time after `after_ms` at which there is one; None if there is none."""
        return min((at_ms for at_ms in self._groups if at_ms > after_ms), default=None)


class DeadlinesKnown:
    """Whether the deadlines of all members are known. Once they are they stay so: each batch tells its moves.

    `longest_session_s`: the longest session that a member may have.
    """

    def __init__(self, timers: Timers, longest_session_s: float) -> None:
        self._timers, self._longest_session_s = timers, longest_session_s
        self._since_s: float | None = None
        """When time began to count, by the machine's monotonic clock."""
        self.all = False

    def forget(self) -> None:
        """Begin again, because another coordinator may have moved some meanwhile."""
        self._timers.forget()
        self._since_s = None
        self.all = False

    def look(self, groups: int, now_s: float, *, is_quiet: bool) -> None:
        """Look again, while time counts; there are so many groups. `is_quiet`: whether no requests come."""
        if self._since_s is None:
            self._since_s = now_s
        # While requests come a group may have told its timer already, and not be among the groups yet.
        has_heard_of_all = groups == 0 or (is_quiet and self._timers.count >= groups)
        # All sessions have ended by then of which nothing was heard.
        has_waited = now_s - self._since_s > self._longest_session_s + _SPARE_S
        self.all = self.all or has_heard_of_all or has_waited


def _rounded(at_ms: int) -> int:
    return -(-at_ms // _UNIT_MS) * _UNIT_MS
