"""The ledger tells a batch which time does not count, and when its requests can have come.

    known = Known(notes, batch, partitions, leeway)
    known.of(key, planned_ms, watermark_ms)     for the group with this record key

All of it is as that batch knew it. So it is the same when the batch runs again, also in another query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.clocks import Span
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.standstills import PartitionOutages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from group_coordinator.checkpoints.ledger import Notes
    from group_coordinator.coordinator_state.clocks import Leeway
    from group_coordinator.coordinator_state.outages import Outage, Outages
    from group_coordinator.coordinator_state.standstills import Standstill


class OfGroup(NamedTuple):
    """The knowledge of a batch about one group, as `step` takes it.

    `watermark_ms`: up to which time passes for it. `span`: None if nobody has noted how plans tell log time.
    `stands`: whether its partition takes no requests.
    """

    watermark_ms: int
    outages: Outages
    span: Span | None
    stands: bool


class Known:
    """The notes of the ledger, for one batch.

    Args:
        notes: all that are kept.
        batch: its number.
        partitions: how many the request topic has.
        leeway: of the times of its requests.
    """

    def __init__(self, notes: Notes, batch: int, partitions: int, leeway: Leeway) -> None:
        of_batch = notes.as_of(batch)
        self._outages = PartitionOutages(of_batch.outages, of_batch.standstills, partitions)
        self._begun = begun = of_batch.begun_of(batch)
        # A query that catches up may take several batches to read what waited in a partition.
        first = begun.batch if begun is not None and begun.until_ms < LATEST_MS else batch
        read = [it for it in of_batch.standstills if it.end_ms is None or it.end_batch >= first]
        # The oldest of a partition counts.
        self._since_ms = {it.partition: _stopped_ms(it, of_batch.outages) for it in reversed(read)}
        """Since when requests waited that are read now, by partition."""
        # A query that reads on begins when all was read that had come before its outage.
        reads_on = [it.batch for it in notes.begun if it.until_ms == LATEST_MS and it.batch <= batch]
        read_on = max(reads_on, default=-1)
        begins_ms = max((it.start_ms for it in of_batch.outages if it.batch <= read_on), default=0)
        # An outage begins later than all that was decided, which may be later than the coordinator was back.
        self._read_ms = begins_ms - leeway.later_ms
        """The time up to which all was read. The watermark may say less."""
        self._leeway = leeway
        self._found: dict[tuple[int, int, int], OfGroup] = {}

    def of(self, key: bytes | None, planned_ms: int, watermark_ms: int) -> OfGroup:
        """Return what is known for the group with this record key.

        `planned_ms`: when the batch was planned, by the driver's clock. `watermark_ms`: its watermark.
        """
        # The same for all groups of a partition.
        asked = planned_ms, watermark_ms, self._outages.partition(key)
        found = self._found.get(asked)
        if found is None:
            found = self._found[asked] = self._find(key, planned_ms, watermark_ms)
        return found

    def _find(self, key: bytes | None, planned_ms: int, watermark_ms: int) -> OfGroup:
        outages, stands = self._outages.of(key), self._outages.stands_for(key)
        read_ms = self._outages.reached_ms(key, max(watermark_ms, self._read_ms))
        watermark_ms = self._outages.reached_ms(key, watermark_ms)
        if (begun := self._begun) is None:
            return OfGroup(watermark_ms, outages, None, stands is not None)
        planned_ms += begun.ahead_ms
        until_ms = begun.until_ms if stands is None else min(begun.until_ms, stands.start_ms)
        since_ms = self._since_ms.get(self._outages.partition(key), LATEST_MS)
        span = Span.of(planned_ms, read_ms, self._leeway, until_ms, since_ms)
        return OfGroup(watermark_ms, outages, span, stands is not None)


def _stopped_ms(stood: Standstill, outages: Sequence[Outage]) -> int:
    """The earliest time at which the partition may have stopped.

    That may have been in an outage. Then the standstill begins at its end.
    """
    since_ms = stood.start_ms
    for outage in reversed(outages):
        if outage.start_ms < since_ms <= outage.end_ms:
            since_ms = outage.start_ms
    return since_ms
