"""Jumps of the brokers' clocks: how a batch that the guard has refused is made to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.checkpoints.offset_log import newest_planned, read_batch
from group_coordinator.checkpoints.shifts import Shift, Shifts, fitted, is_off, put_right
from group_coordinator.checkpoints.times import append_times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from group_coordinator.checkpoints.ledger import Ledger
    from group_coordinator.checkpoints.shifts import Guard, Measured

__all__ = ["note_shifts"]

_MOST_SEARCHED = 1_000
"""Requests that are looked at to find the first one after a clock has jumped. Probes are a second apart."""


def note_shifts(
    ledger: Ledger,
    client_config: Mapping[str, Any],
    request_topic: str,
    guard: Guard | None,
    *,
    differ_ms: int,
    most: int,
    measured: Mapping[int, Measured],
) -> tuple[Shifts, list[Shift]]:
    """Note the shifts with which `guard` accepts the batch that is planned and not committed.

    Then note those of clocks that were measured to be wrong, for the requests that are not planned yet.
    Returns all shifts, and of each partition the new one that holds for what comes. There are none for a
    partition whose records the guard accepts now, because it was the driver's clock that had jumped.

    Args:
        ledger: of the checkpoint.
        client_config: for kafka-python.
        request_topic: the one that the batch reads.
        guard: that of the batch, by today's clock of the driver; None if there was no query yet.
        differ_ms: by how much clocks may differ.
        most: how many records a batch has at most.
        measured: by how much the clocks of partitions' leaders are wrong, where that was measured lately.

    Raises `CheckpointError`, and `KafkaError` if the batch cannot be read.
    """
    shifts, files = list(ledger.shifts), ledger.files
    planned = newest_planned(files)
    if planned is None:
        return Shifts(shifts), []
    ends = planned.offsets.get(request_topic, {})
    known = {it: measured[it] for it in sorted(ends.keys() & measured.keys())}
    noted = []
    if guard is not None and not planned.is_committed:
        before = read_batch(files, planned.batch_id - 1).offsets if planned.batch_id else {}
        read = before.get(request_topic, {})
        had_room = _size(before, planned.offsets) < most - sum(map(len, planned.offsets.values()))
        begins = {it: max(read.get(it, 0), end - most) for it, end in ends.items()}
        for partition, times in append_times(client_config, request_topic, begins, ends).items():
            span = guard.span(planned.timestamp_ms, planned.watermark_ms, partition, had_room=had_room)
            end = ends[partition]
            right_ms = known[partition].shift_ms if partition in known else None
            after = fitted(shifts, partition, times, end, span, differ_ms, right_ms)
            if after is not None:
                shifts = after
                noted.append(Shift(partition, end, Shifts(after).at(partition, end)))
                if partition in known and known[partition].at_ms < span.now_ms:
                    # The clock may have jumped since then.
                    del known[partition]
    planned_ms = planned.timestamp_ms + guard.ahead_ms if guard is not None else planned.watermark_ms
    newest_ms = Shifts(shifts).newest_ms
    off = {it: each for it, each in known.items() if is_off(newest_ms(it), each.shift_ms, differ_ms)}
    if off:
        # Requests that no batch has read may have come before the clock jumped.
        begins = {it: max(ends[it], each.offset - _MOST_SEARCHED) for it, each in off.items()}
        until = {it: each.offset for it, each in off.items()}
        unread = append_times(client_config, request_topic, begins, until)
        for partition, each in off.items():
            first = each.first_offset(unread.get(partition, []), planned_ms, differ_ms)
            shifts = put_right(shifts, partition, max(ends[partition], first), each.shift_ms, differ_ms)
            noted.append(shifts[-1])
    if noted:
        ledger.put_shifts(shifts)
    return Shifts(shifts), noted


def _size(before: Mapping[str, Mapping[int, int]], after: Mapping[str, Mapping[int, int]]) -> int:
    """How many records a batch has, of all topics. Spark limits that, and rounds for each partition."""
    return sum(
        end - before.get(topic, {}).get(partition, 0)
        for topic, ends in after.items()
        for partition, end in ends.items()
    )
