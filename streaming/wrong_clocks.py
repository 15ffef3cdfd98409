"""The brokers' clocks that are wrong, as the requests show that the core has corrected."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from group_coordinator.streaming.counts import Counts

__all__ = ["Told", "WrongClocks"]

_EVERY_S = 60.0
"""Each group shows it with its next request. So there may be many that tell the same, one after the other."""


class Told(NamedTuple):
    """The clock of a partition's leader is wrong by `ahead_s`, or is right again."""

    partition: int
    is_wrong: bool
    ahead_s: float


class WrongClocks:
    """Tells what is new about each partition's clock, once in a while."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[int, int]] = Counter()
        self._quiet_until_s: dict[tuple[int, bool], float] = {}

    def look(self, counts: Counts, now_s: float) -> Iterator[Told]:
        """Give what the requests have shown that were corrected since the last look, by a monotonic clock."""
        new = counts.clocks - self._seen
        self._seen = counts.clocks
        tenths: dict[tuple[int, bool], Counter[int]] = {}
        for (partition, ahead), count in new.items():
            tenths.setdefault((partition, ahead != 0), Counter())[ahead] += count
        for (partition, is_wrong), by_size in tenths.items():
            if now_s < self._quiet_until_s.get((partition, is_wrong), now_s):
                continue
            self._quiet_until_s[partition, is_wrong] = now_s + _EVERY_S
            # That it has changed is news at once.
            self._quiet_until_s.pop((partition, not is_wrong), None)
            yield Told(partition, is_wrong, sum(it * by_size[it] for it in by_size) / by_size.total() / 10)
