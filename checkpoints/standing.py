"""The begin of a standstill: after it nothing of the partition's groups was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.checkpoints.offset_log import newest_planned, read_before
from group_coordinator.checkpoints.outages import newest_ms
from group_coordinator.checkpoints.shifts import Shifts
from group_coordinator.checkpoints.times import readable_ends

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from group_coordinator.checkpoints.ledger import Ledger

__all__ = ["note_standstills", "undecided_from"]


def note_standstills(
    ledger: Ledger,
    client_config: Mapping[str, Any],
    request_topic: str,
    partitions: Collection[int],
    resumed_ms: int,
    *,
    look_back_ms: int,
) -> list[int]:
    """Note that these partitions take no requests; return those of which it was not known.

    A standstill begins with the newest request of its partition, and not before the watermark. Requests that
    were not read yet came before it, so they are decided while it lasts. `resumed_ms`: log time when it was
    known; requests that have come since did not come before. `look_back_ms`: as `note_outage` has it. Raises
    `CheckpointError`, and `KafkaError` if the newest requests cannot be read.
    """
    planned = newest_planned(ledger.files)
    begun = set(partitions) - ledger.standing.keys()
    if planned is None or not begun:
        return []
    shifts = Shifts(ledger.shifts)
    spans = [(it.start_ms, it.end_ms) for it in ledger.outages]
    begins = {}
    read_from = read_before(ledger.files, planned, look_back_ms).get(request_topic, {})
    for partition in sorted(begun):
        read = {partition: planned.offsets.get(request_topic, {}).get(partition, 0)}
        unread = readable_ends(client_config, request_topic, [partition])
        read_ms = max(
            newest_ms(client_config, request_topic, read_from, read, shifts),
            min(newest_ms(client_config, request_topic, {}, unread, shifts), resumed_ms),
            planned.next_watermark_ms or planned.watermark_ms,
        )
        over = [
            (it.start_ms, it.end_ms) for it in ledger.standstills if it.partition == partition and it.end_ms
        ]
        begins[partition] = undecided_from(read_ms, [*spans, *over])
    ledger.begin_standstills(begins)
    return sorted(begins)


def undecided_from(read_ms: int, spans: Iterable[tuple[int, int]]) -> int:
    """The time after which nothing was decided: `read_ms`, or the end of the span that it lies in.

    `spans`: outages and standstills that are over, from when to when. A time in one counts as its end.
    """
    for start_ms, end_ms in sorted(spans):
        if start_ms <= read_ms < end_ms:
            read_ms = end_ms
    return read_ms
