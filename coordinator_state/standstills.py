"""Standstills: stretches of log time in which one request partition took no requests.

A follower hangs, or too few replicas are left. Members whose groups are in that partition cannot send
heartbeats then, while others can. So a standstill counts for the groups of its partition as an
outage does for all. While it lasts, no deadline of these groups passes, and so nothing depends on its length.

Kafka's coordinator expires nobody either then, because it cannot write the partition in which the group is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.partitioning import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["NO_PARTITION_OUTAGES", "PartitionOutages", "Standstill"]


class Standstill(NamedTuple):
    """A time in which a request partition took no requests, in ms of log time; it may last still (None)."""

    partition: int
    start_ms: int
    end_ms: int | None = None


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
        self._of = {
            number: Outages(_merged(self._everywhere, [it for it in standstills if it.partition == number]))
            for number in {it.partition for it in standstills}
        }

    def of(self, key: bytes | None) -> Outages:
        """The outages that count for the group with this record key."""
        return self._of.get(self._partition(key), self._everywhere) if self._of else self._everywhere

    def stands_for(self, key: bytes | None) -> Standstill | None:
        """The standstill of this group's partition, if it takes no requests still."""
        return self._open.get(self._partition(key)) if self._open else None

    def _partition(self, key: bytes | None) -> int:
        return -1 if key is None else partition_for_key(key, self._partitions)


NO_PARTITION_OUTAGES = PartitionOutages()


def _merged(outages: Outages, standstills: list[Standstill]) -> Iterator[Outage]:
    """Both, without the parts of outages that lie in a standstill: nothing more can have happened there.

    A batch may have run when the standstill was over, before anybody knew of the outage that followed. So an
    outage that begins in a standstill begins with its end, and the standstill is not made longer by it.
    """
    spans = [(it.start_ms, LATEST_MS if it.end_ms is None else it.end_ms) for it in sorted(standstills)]
    for start_ms, end_ms in spans:
        yield Outage(start_ms, end_ms, outages.closed_at(end_ms))
    for outage in outages:
        begin_ms = max([outage.start_ms, *(end for start, end in spans if start <= outage.start_ms < end)])
        if begin_ms < outage.end_ms:
            yield outage._replace(start_ms=begin_ms)
