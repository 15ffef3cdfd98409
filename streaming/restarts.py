"""The reasons for which a query has to begin again.

    restarts.begins(catches_up=…, ahead_ms=…)    a query begins
    restarts.batch_ended()                       it has ended a batch
    restarts.stalled(silent_ms, behind_ms)       why its batches are of no use any more
    restarts.changed(silent, healed, ahead_ms)   why what it was told when it began is not true any more
    restarts.was_cut_short()                     it was stopped because its first batch took too long
    restarts.is_conflict(error)                  whether it may begin again after it has failed

Nothing here asks for the time or waits: all of it comes as arguments, in ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_CATCH_UP_MS = 120_000
"""A batch that takes longer, while no time passes, may be stuck: it runs again, with twice the time."""
_CONFLICT = "[CONCURRENT_STREAM_LOG_UPDATE]"
"""Spark's error condition for a batch that somebody else has planned, or committed."""
_MOST_CONFLICTS = 3
"""With more, and no batch between them, the other writer is no coordinator that will notice and stop."""


class Restarts:
    """Judges the query that runs, by what is told of it.

    Args:
        stall_ms: a batch that takes longer, while time passes, is an outage.
        max_gap_ms: log time and the driver's clock may come apart by no more while a query runs.
    """

    def __init__(self, stall_ms: int, max_gap_ms: int) -> None:
        self._max_gap_ms = max_gap_ms
        self._least_ms = {True: _CATCH_UP_MS, False: stall_ms}
        self._patience_ms = dict(self._least_ms)
        """By whether a query catches up."""
        self._catches_up = True
        self._ahead_ms = 0
        self._conflicts = 0
        """How often the query has ended by a conflict since the last batch that ended."""

    @property
    def patience_ms(self) -> int:
        """The time that a batch may take now."""
        return self._patience_ms[self._catches_up]

    def begins(self, *, catches_up: bool, ahead_ms: int = 0) -> None:
        """Take in that a query begins. `ahead_ms`: how far log time is ahead of the driver's clock."""
        self._catches_up = catches_up
        self._ahead_ms = ahead_ms

    def batch_ended(self) -> None:
        """Take in that a batch has ended."""
        self._conflicts = 0
        self._patience_ms[self._catches_up] = self._least_ms[self._catches_up]

    def was_cut_short(self) -> None:
        """Take in that the query is stopped by `stalled` before it has ended a batch."""
        # Given more time again and again, the longest of first batches ends some day.
        self._patience_ms[self._catches_up] *= 2

    def stalled(self, silent_ms: float, behind_ms: float) -> str | None:
        """Return why batches are of no use any more: they do not end, or never read all there is."""
        if silent_ms > self.patience_ms:
            return "no batch has ended in time"
        if not self._catches_up and behind_ms > self.patience_ms:
            return "requests come faster than they are read"
        return None

    def changed(self, silent: Collection[int], healed: Collection[int], ahead_ms: int) -> str | None:
        """Return why the query has to know more than it was told when it began.

        `silent`, `healed`: request partitions that take no requests, or do again.
        """
        if silent and not self._catches_up:
            return f"{_partitions(silent)} no requests"
        if healed:
            return f"{_partitions(healed)} requests again"
        if abs(ahead_ms - self._ahead_ms) > self._max_gap_ms:
            # The plans of its batches have the time of this clock.
            return "this machine's clock and log time have come apart"
        return None

    def is_conflict(self, error: str) -> bool:
        """Take in that the query has failed; return whether that is because another coordinator has written.

        One that was paused has ended its batch when it woke up, before it could know of this one. Its answers
        were the same. The clock tells which of the two goes on.
        """
        self._conflicts += 1
        return _CONFLICT in error and self._conflicts <= _MOST_CONFLICTS


def _partitions(numbers: Collection[int]) -> str:
    """The subject and the verb of a line."""
    listed = ", ".join(map(str, sorted(numbers)))
    return f"request partition {listed} takes" if len(numbers) == 1 else f"request partitions {listed} take"
