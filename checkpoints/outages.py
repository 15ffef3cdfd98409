"""The begin of a query, and the outage that is over with it.

Time of an outage does not count for any deadline (`group_coordinator.coordinator_state.outages`). So
decisions depend on the outages, and the checkpoint keeps them. One is noted at each start, before the first
batch is planned. It begins with the latest time that a request of any batch so far can count as. It ends with
the first tick of the clock that begins now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.checkpoints.ledger import Begun
from group_coordinator.checkpoints.offset_log import newest_planned
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.outages import Outage

if TYPE_CHECKING:
    from group_coordinator.checkpoints.ledger import Ledger
    from group_coordinator.checkpoints.offset_log import PlannedBatch


def reached_ms(ledger: Ledger) -> int:
    """The latest log time, in ms, that the checkpoint knows of; 0 if none."""
    return max(watermark_ms(newest_planned(ledger.files)), ledger.reached_ms)


def next_batch(planned: PlannedBatch | None) -> int:
    """The number of the batch that is planned next, if that was the newest."""
    return 0 if planned is None else planned.batch_id + 1


def note_begin(
    ledger: Ledger,
    planned: PlannedBatch | None,
    resumed_ms: int,
    ahead_ms: int,
    *,
    later_ms: int,
    catches_up: bool = False,
    counts_ms: int = 0,
    closed: bool | None = None,
) -> None:
    """Note that a query begins, and that there is a coordinator again since `resumed_ms`, in log time.

    `planned`: the newest batch. `ahead_ms`: how far log time is ahead of this machine's clock. `later_ms`: as
    `Begun.latest_ms` has it. `catches_up`: the query reads what the log has now. `counts_ms`: how much of the
    time before it counts, because a coordinator was reading. `closed`: whether it creates no groups; None: as
    it was. Raises `CheckpointError`.
    """
    outages = ledger.notes.outages
    was_closed = bool(outages) and outages[-1].closed
    latest_ms = decided_ms(ledger, planned, later_ms)
    if latest_ms > resumed_ms + later_ms:
        # The clock of the machine that has planned it had jumped.
        latest_ms = watermark_ms(planned)
    # It may have ended before it had read anything new: then the outage goes on.
    read_ms = max([latest_ms, *(it.end_ms for it in outages)])
    begun = Begun(next_batch(planned), ahead_ms, max(resumed_ms, read_ms) if catches_up else LATEST_MS)
    outage = None
    if read_ms:  # or else nobody was there yet
        begin_ms = read_ms + counts_ms
        closes = was_closed if closed is None else closed
        if begin_ms < resumed_ms or closes != was_closed:
            # Its end is later than all that was read, also where a broker's clock is behind.
            outage = Outage(begin_ms, max(begin_ms + 1, resumed_ms), closes, begun.batch)
    ledger.begin(begun, outage)


def decided_ms(ledger: Ledger, planned: PlannedBatch | None, later_ms: int) -> int:
    """The latest log time up to which the coordinator may have decided; 0 if it has decided nothing."""
    if planned is None:
        return 0
    begun = ledger.notes.begun_of(planned.batch_id)
    latest_ms = 0 if begun is None else begun.latest_ms(planned.timestamp_ms, later_ms)
    return max(latest_ms, watermark_ms(planned))


def watermark_ms(planned: PlannedBatch | None) -> int:
    """The watermark of the batch after it, or if that is not known its own."""
    return 0 if planned is None else planned.next_watermark_ms or planned.watermark_ms
