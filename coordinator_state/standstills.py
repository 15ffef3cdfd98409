"""Standstills: stretches of log time in which one request partition took no requests.

A follower hangs, or too few replicas are left. Members whose groups are in that partition cannot send
heartbeats then, while others can. So a standstill counts for the groups of its partition as an
outage does for all. While it lasts, no deadline of these groups passes, and so nothing depends on its length.

Kafka's coordinator expires nobody either then, because it cannot write the partition in which the group is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.partitioning import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Standstill(NamedTuple):
    """A time in which a request partition took no requests, in ms of log time; it may last still (None).

    `batch`: the first one that knows of it. `end_batch`: the first one that knows of its end.
    """

    partition: int
    start_ms: int
    end_ms: int | None = None
    batch: int = 0
    end_batch: int = 0

    def as_of(self, batch: int) -> Standstill | None:
        """The same as that batch knows it; None if it does not."""
        if batch < self.batch:
            return None
        return self if batch >= self.end_batch else self._replace(end_ms=None, end_batch=0)


class PartitionOutages:
    """The outages that count for a group: all outages, and the standstills of its partition.

    Args:
        outages: of all groups. They do not overlap.
        standstills: those of one partition do not overlap. None begins within an outage.
        partitions: how many the request topic has; the key decides in which of them a group is.
    """

    def __init__(
        self, outages: Iterable[Outage] = (), standstills: Iterable[Standstill] = (), partitions: int = 1
    ) -> None:
        self._everywhere = Outages(outages)
        self._partitions = partitions
        standstills = list(standstills)
        self._open = {it.partition: it for it in standstills if it.end_ms is None}
        over: dict[int, list[Outage]] = {}
        for it in sorted(standstills):
            # No time passes in one that lasts.
            if it.end_ms is not None:
                closed = self._everywhere.closed_at(it.end_ms)
                over.setdefault(it.partition, []).append(Outage(it.start_ms, it.end_ms, closed, it.end_batch))
        self._of = {number: Outages(_merged(self._everywhere, spans)) for number, spans in over.items()}

    def of(self, key: bytes | None) -> Outages:
        """The outages that count for the group with this record key."""
        return self._of.get(self.partition(key), self._everywhere) if self._of else self._everywhere

    def reached_ms(self, key: bytes | None, watermark_ms: int) -> int:
        """Up to which time passes for this group, with that watermark."""
        stands = self.stands_for(key)
        return watermark_ms if stands is None else min(watermark_ms, stands.start_ms)

    def stands_for(self, key: bytes | None) -> Standstill | None:
        """The standstill of this group's partition, if it takes no requests still."""
        return self._open.get(self.partition(key)) if self._open else None

    def partition(self, key: bytes | None) -> int:
        """The request partition of this group; -1 if that makes no difference."""
        if key is None or not (self._of or self._open):
            return -1
        return partition_for_key(key, self._partitions)


NO_PARTITION_OUTAGES = PartitionOutages()


def _merged(outages: Outages, stood: list[Outage]) -> Iterator[Outage]:
    """Both, without the parts of outages that lie in a standstill: nothing more can have happened there.

    A batch may have run when the standstill was over, before anybody knew of the outage that followed. So an
    outage that begins in a standstill begins with its end, and the standstill is not made longer by it.
    """
    yield from stood
    for outage in outages:
        begin_ms = max(
            [outage.start_ms, *(it.end_ms for it in stood if it.start_ms <= outage.start_ms < it.end_ms)]
        )
        if begin_ms < outage.end_ms:
            yield outage._replace(start_ms=begin_ms)
