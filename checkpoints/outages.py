"""The outages that a checkpoint has been through: when no coordinator ran from it.

Time of an outage does not count for any deadline (`group_coordinator.coordinator_state.outages`). So
decisions depend on the outages, and the checkpoint keeps them. One is noted at each start, before the first
batch is planned. An outage begins with the newest request that any batch so far was planned with, and not
before the watermark. That batch may run again, and must not see a difference. The outage ends with the first
tick of the clock that begins now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.checkpoints.offset_log import newest_planned, read_before
from group_coordinator.checkpoints.shifts import Shifts
from group_coordinator.checkpoints.times import counted_times
from group_coordinator.coordinator_state.outages import Outage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from group_coordinator.checkpoints.ledger import Ledger
    from group_coordinator.checkpoints.offset_log import PlannedBatch

__all__ = ["newest_ms", "note_outage", "reached_ms"]

_LOOK_BACK = 100
"""The last record of a partition may be followed by markers of its writer's transactions."""


def reached_ms(ledger: Ledger) -> int:
    """The latest log time, in ms, that the checkpoint knows of; 0 if none."""
    return max(_watermark_ms(newest_planned(ledger.files)), ledger.reached_ms)


def _watermark_ms(planned: PlannedBatch | None) -> int:
    return 0 if planned is None else planned.next_watermark_ms or planned.watermark_ms


def note_outage(
    ledger: Ledger,
    client_config: Mapping[str, Any],
    request_topic: str,
    resumed: Callable[[], int],
    *,
    look_back_ms: int,
    counts_ms: int = 0,
    closed: bool | None = None,
) -> None:
    """Note that there is a coordinator again since the time that `resumed` returns.

    That is log time, in ms. It is asked last: Kafka may take its time, which belongs to the outage.
    `look_back_ms`: of what time before the newest batch the requests are looked at (`Settings.look_back_ms`).
    `counts_ms`: how much of the time before it counts, because a coordinator was reading. `closed`: whether
    it creates no groups; None: as it was. Raises `CheckpointError`, and `KafkaError` if the newest requests
    cannot be read. If `resumed` raises, nothing is noted, and the exception goes on.
    """
    outages, planned = ledger.outages, newest_planned(ledger.files)
    if planned is None:
        return
    was_closed = bool(outages) and outages[-1].closed
    ends = planned.offsets.get(request_topic, {})
    begins = read_before(ledger.files, planned, look_back_ms).get(request_topic, {})
    request_ms = newest_ms(client_config, request_topic, begins, ends, Shifts(ledger.shifts))
    # It may have ended before it had read anything new: then the outage goes on.
    read_ms = max([request_ms, _watermark_ms(planned), *(it.end_ms for it in outages)])
    resumed_ms = resumed()
    if not read_ms:
        return  # nobody was there yet
    begin_ms = read_ms + counts_ms
    # Its end is later than all that was read, also where a broker's clock is behind.
    outage = Outage(begin_ms, max(begin_ms + 1, resumed_ms), was_closed if closed is None else closed)
    if begin_ms < resumed_ms or outage.closed != was_closed:
        ledger.add_outage(outage)


def newest_ms(
    client_config: Mapping[str, Any],
    topic: str,
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    shifts: Shifts,
) -> int:
    """The latest time that one of the records before `ends` counts as; 0 if none is there any more.

    The newest record is not always the latest: a clock may have been set back by less than a shift is noted
    for. `begins`: none before these can be the latest. Without one it is taken to be among the last 100.
    """
    begins = {partition: min(begins.get(partition, end), end - _LOOK_BACK) for partition, end in ends.items()}
    return max(counted_times(client_config, topic, begins, ends, shifts), default=0)
