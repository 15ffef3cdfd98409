"""Outages: stretches of log time in which no coordinator ran, or none could be reached.

The log goes on while the coordinator is away: members beat, and nobody answers. So the time of an outage
does not count. A request that was appended during one has come at its end, when it was read, and a deadline
that was running when it began is put off by its length. Whoever was to join or sync by then did not hear of
it, and has as much time left as there was.

Kafka comes to much the same in its own way: a coordinator that takes a group over begins all sessions anew
(GroupMetadataManager.onLoaded), and has forgotten the rebalance that was running.

What the coordinator comes back with holds until the next outage: whether it creates groups, or has as many as
it may have. So that, too, depends on time alone.

Outages are part of the log, in a way: which there were is kept with the checkpoint, and a replay with the
same log and the same outages gives the same decisions.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["NO_OUTAGES", "Outage", "Outages"]


class Outage(NamedTuple):
    """From `start_ms` to `end_ms`, in ms of log time, there was no coordinator.

    Nothing that was appended after `start_ms` had been read when it began. `closed`: from its end to the next
    one no group is created.
    """

    start_ms: int
    end_ms: int
    closed: bool = False


class Outages:
    """All outages that are known. They do not overlap."""

    def __init__(self, outages: Iterable[Outage] = ()) -> None:
        self._outages = sorted(outages)
        self._ends = [outage.end_ms for outage in self._outages]

    def __iter__(self) -> Iterator[Outage]:
        return iter(self._outages)

    def between(self, from_ms: int, to_ms: int) -> Iterable[Outage]:
        """Those that begin before `to_ms`, less what of them is over at `from_ms`; earliest first."""
        # Asked for every record, and nearly always all are over.
        if not self._ends or self._ends[-1] <= from_ms:
            return ()
        return self._between(from_ms, to_ms)

    def _between(self, from_ms: int, to_ms: int) -> Iterator[Outage]:
        for outage in self._outages[bisect_right(self._ends, from_ms) :]:
            if outage.start_ms >= to_ms:
                return
            yield outage._replace(start_ms=max(outage.start_ms, from_ms))

    def closed_at(self, now_ms: int) -> bool:
        """Whether no group is created at that time."""
        over = bisect_right(self._ends, now_ms)
        return over > 0 and self._outages[over - 1].closed


NO_OUTAGES = Outages()
