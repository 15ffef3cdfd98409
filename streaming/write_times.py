"""The times at which request partitions took probes, and what follows from them.

    times.due(ticks=…)            the partitions to which a probe is to be sent
    times.sent(partition, now_ms), times.taken(partition, now_ms), times.lost(partition)
    times.ticked(now_ms)          the clock's partition has taken a tick
    times.unwritten_ms(now_ms)    how long ago all partitions surely took requests
    times.silent(), times.healed(), times.unknown()

Nothing here asks for the time or waits: it is an argument, in ms of one monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(slots=True)
class _Partition:
    """What is known of one.

    `written_ms`: when the newest probe was sent that it has taken. `asked_ms`: when the first one was sent
    that it has not taken since; None if it has taken all. `sent_ms`: when the one on its way was sent.
    """

    written_ms: float
    asked_ms: float | None
    sent_ms: float | None = None


class WriteTimes:
    """Probes that were taken, of all partitions that are asked.

    Args:
        partitions: their numbers. None of them has taken a probe yet.
        patience_ms: a partition stands still that has not taken a probe for longer, while ticks are taken.
        now_ms: the time.
    """

    def __init__(self, partitions: Collection[int], patience_ms: float, now_ms: float) -> None:
        self._patience_ms = patience_ms
        self._partitions = {it: _Partition(now_ms, now_ms) for it in partitions}
        self._standing: Collection[int] = ()
        """The partitions of which it is noted that they take no requests."""
        self._ticked_since_ms = self._ticked_ms = now_ms
        """Between these times ticks were taken, one after the other."""

    def __len__(self) -> int:
        """The number of partitions that are asked."""
        return len(self._partitions)

    def due(self, *, ticks: bool) -> list[int]:
        """The partitions to which a probe is to be sent.

        `ticks`: the clock writes now. A probe beside a tick makes no batch more. One that has not taken the
        probe before is asked again at once.
        """
        return [
            number
            for number, it in self._partitions.items()
            if it.sent_ms is None and (ticks or it.asked_ms is not None)
        ]

    def sent(self, partition: int, now_ms: float) -> None:
        """Take in that a probe was sent."""
        it = self._partitions[partition]
        it.sent_ms = now_ms
        if it.asked_ms is None:
            it.asked_ms = now_ms

    def taken(self, partition: int, now_ms: float) -> float:
        """Take in that the probe that was on its way is in the log, for all to read.

        Returns the time that it took.
        """
        it = self._partitions[partition]
        assert it.sent_ms is not None, "a probe is on its way"  # noqa: S101
        it.written_ms = it.sent_ms
        it.sent_ms = it.asked_ms = None
        return now_ms - it.written_ms

    def lost(self, partition: int) -> None:
        """Take in that the probe that was on its way was not taken."""
        self._partitions[partition].sent_ms = None

    def ticked(self, now_ms: float) -> None:
        """Take in that a tick is in the log."""
        if now_ms - self._ticked_ms > self._patience_ms:
            # All of Kafka may have been away, or this process.
            self._ticked_since_ms = now_ms
        self._ticked_ms = now_ms

    def forget_all(self) -> None:
        """Ask no partition any more, because nobody may."""
        self._partitions.clear()

    def begin(self, standing: Collection[int]) -> None:
        """Take in that a query begins, for which these partitions stand still."""
        self._standing = frozenset(standing)

    def unwritten_ms(self, now_ms: float) -> float:
        """The time since every partition has surely taken requests, without those that stand still."""
        times = (it.written_ms for number, it in self._partitions.items() if number not in self._standing)
        return now_ms - min(times, default=now_ms)

    def silent(self) -> dict[int, float]:
        """The partitions that take no requests, as is not noted.

        With each is when the first probe was sent that it has not taken.
        """
        return {
            number: it.asked_ms
            for number, it in self._partitions.items()
            if number not in self._standing
            and it.asked_ms is not None
            and self._ticked_ms - max(it.asked_ms, self._ticked_since_ms) > self._patience_ms
        }

    def unknown(self) -> set[int]:
        """The partitions of which it is not known yet whether they take requests."""
        return self._asked() - set(self._standing) - self.silent().keys()

    def healed(self) -> set[int]:
        """The partitions that stand still, as is noted, and have taken the newest probe, or are not asked."""
        return set(self._standing) - self._asked()

    def _asked(self) -> set[int]:
        return {number for number, it in self._partitions.items() if it.asked_ms is not None}
