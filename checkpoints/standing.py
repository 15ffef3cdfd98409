"""The begin of a standstill: after it nothing of the partition's groups was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.checkpoints.offset_log import read_before
from group_coordinator.checkpoints.outages import decided_ms, next_batch, watermark_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from group_coordinator.checkpoints.ledger import Ledger
    from group_coordinator.checkpoints.offset_log import PlannedBatch
    from group_coordinator.coordinator_state.outages import Outage


def note_standstills(
    ledger: Ledger,
    planned: PlannedBatch | None,
    request_topic: str,
    asked_ms: Mapping[int, int],
    times_of: Callable[[Mapping[int, int], Mapping[int, int]], Mapping[int, Iterable[int]]],
    *,
    later_ms: int,
    look_back_ms: int,
) -> list[int]:
    """Note that these partitions take no requests; return those of which it was not known.

    Requests that were not read yet count as of its begin. `planned`: the newest batch. `asked_ms`: the log
    time at which each partition was sent the first probe that it has not taken. `times_of`: see
    `append_times`. `later_ms`: by how much a clock may be ahead. `look_back_ms`: requests of batches that
    were planned so long before the newest one may be the latest. Raises `CheckpointError`, and what
    `times_of` raises.
    """
    begun = set(asked_ms) - ledger.standing.keys()
    if planned is None or not begun:
        return []
    read = {it: planned.offsets.get(request_topic, {}).get(it, 0) for it in sorted(begun)}
    read_from = read_before(ledger.files, planned, look_back_ms).get(request_topic, {})
    since = {partition: min(read_from.get(partition, end), end - _LEAST) for partition, end in read.items()}
    times = times_of(since, read)
    begins = {}
    newest_ms = decided_ms(ledger, planned, later_ms)
    for partition in read:
        # The watermark may be of before the standstill before, if no batch has ended since.
        ends = [it.end_ms or 0 for it in ledger.notes.standstills if it.partition == partition]
        begins[partition] = stands_since(
            times.get(partition, []),
            min(asked_ms[partition] + later_ms, newest_ms),
            max([watermark_ms(planned), *ends]),
            ledger.notes.outages,
        )
    ledger.begin_standstills(begins, next_batch(planned))
    return sorted(begins)


_LEAST = 100
"""The last record of a partition may be followed by markers of its writer's transactions."""


def stands_since(times: Iterable[int], latest_ms: int, reached_ms: int, outages: Iterable[Outage]) -> int:
    """The time after which nothing was decided of a partition that takes no requests.

    That is the time of the newest request, and not before `reached_ms`. If it lies in an outage it
    counts as its end.

    Args:
        times: the append times of the requests that were read last.
        latest_ms: none can have come later. If one seems to have, its clock is wrong, and nobody knows here
            when it came.
        reached_ms: the watermark of the next batch, or the end of the standstill before if that is later.
    """
    read_ms = max([reached_ms, *(it for it in times if it <= latest_ms)])
    for outage in sorted(outages):
        if outage.start_ms <= read_ms < outage.end_ms:
            read_ms = outage.end_ms
    return read_ms
