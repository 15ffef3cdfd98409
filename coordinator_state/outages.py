"""Outages: stretches of log time in which no coordinator ran, or none could be reached.

The log goes on while the coordinator is away: members send heartbeats, and nobody answers. So the time of an
outage does not count. A request that was appended during an outage counts as of its end, when it was read. A
deadline that was running at the begin of an outage is moved by its length. A member that was to join or sync
has as much time left as before, because it could not know.

Kafka does much the same in its own way. A coordinator that takes over a group restarts all sessions
(GroupMetadataManager.onLoaded), and has forgotten the rebalance that was running.

A coordinator that has as many groups as it may have creates no more. It decides so when it comes back, and
this holds until the next outage. So it depends on time alone as well.

The checkpoint keeps the outages. A replay with the same log and the same outages gives the same decisions.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Outage(NamedTuple):
    """A time without a coordinator, from `start_ms` to `end_ms`, in ms of log time.

    Nothing that was appended after `start_ms` had been read when it began. `closed`: from its end to the next
    one no group is created. `batch`: the first one that knows of it.
    """

    start_ms: int
    end_ms: int
    closed: bool = False
    batch: int = 0


class Outages:
    """All outages that are known. They do not overlap."""

    def __init__(self, outages: Iterable[Outage] = ()) -> None:
        self._outages = sorted(outages)
        self._ends = [outage.end_ms for outage in self._outages]

    def __iter__(self) -> Iterator[Outage]:
        return iter(self._outages)

    def between(self, from_ms: int, to_ms: int) -> Iterable[Outage]:
        """The outages that begin before `to_ms`, without the parts before `from_ms`; earliest first."""
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
