"""The clock learns here when deadlines of groups are due, because a deadline passes when a tick comes.

Every call of the stateful function tells how it has moved the deadline of its group's members, and the driver
adds that up. It does not know groups in which nothing has happened since the process began. Their deadlines
pass with the next regular ticks. So they do if a task was tried again, and has told its moves twice.
"""

from __future__ import annotations

from collections import Counter

__all__ = ["Timers"]

_UNIT_MS = 100
_HORIZON_MS = 1_920_000
"""Deadlines that are further away are not kept. A session ends sooner, by default within half an hour."""


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
        kept = range(self.passed_ms + 1, self.passed_ms + _HORIZON_MS) if self.passed_ms else ()
        # A new one, because another thread may be reading this.
        self._groups = Counter(
            {at_ms: count for at_ms, count in added.items() if count > 0 and at_ms in kept}
        )

    def next_ms(self, after_ms: int) -> int | None:
        """The earliest time after `after_ms` at which there is one; None if there is none."""
        return min((at_ms for at_ms in self._groups if at_ms > after_ms), default=None)


def _rounded(at_ms: int) -> int:
    return -(-at_ms // _UNIT_MS) * _UNIT_MS
