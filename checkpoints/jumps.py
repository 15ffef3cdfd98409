"""Jumps of the brokers' clocks: how a batch that the guard has refused is made to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.checkpoints.offset_log import newest_planned, read_batch
from group_coordinator.checkpoints.shifts import (
    Shift,
    Shifts,
    fitted,
    put_right,
    read_shifts,
    write_shifts,
)
from group_coordinator.checkpoints.times import append_times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from group_coordinator.checkpoints.files import CheckpointFiles
    from group_coordinator.checkpoints.shifts import Guard

__all__ = ["note_measured_shifts", "note_shifts"]


def note_shifts(
    files: CheckpointFiles,
    client_config: Mapping[str, Any],
    request_topic: str,
    guard: Guard,
    *,
    differ_ms: int,
    most: int,
    ahead_ms: Mapping[int, float],
) -> list[Shift]:
    """Note the shifts with which `guard` accepts the batch that is planned and not committed.

    Returns, for each partition that has new ones, the shift that holds after the batch. There are none if the
    guard accepts the batch now, because it was the driver's clock that had jumped.

    Args:
        files: of the checkpoint.
        client_config: for kafka-python.
        request_topic: the one that the batch reads.
        guard: the one that has refused a record of the batch, by today's clock of the driver.
        differ_ms: by how much clocks may differ.
        most: how many records a batch has at most.
        ahead_ms: by how much the clock of a partition's leader is ahead of log time, where that was measured.

    Raises `CheckpointError`, and `KafkaError` if the batch cannot be read.
    """
    planned = newest_planned(files)
    if planned is None or planned.is_committed:
        return []
    before = read_batch(files, planned.batch_id - 1).offsets if planned.batch_id else {}
    read = before.get(request_topic, {})
    ends = planned.offsets.get(request_topic, {})
    had_room = _size(before, planned.offsets) < most - sum(map(len, planned.offsets.values()))
    begins = {it: max(read.get(it, 0), end - most) for it, end in ends.items()}
    shifts = read_shifts(files)
    noted = []
    for partition, times in append_times(client_config, request_topic, begins, ends).items():
        span = guard.span(planned.timestamp_ms, planned.watermark_ms, partition, had_room=had_room)
        measured_ms = -round(ahead_ms[partition]) if partition in ahead_ms else None
        after = fitted(shifts, partition, times, ends[partition], span, differ_ms, measured_ms)
        if after is not None:
            shifts = after
            noted.append(Shift(partition, ends[partition], Shifts(after).at(partition, ends[partition])))
    if noted:
        write_shifts(files, shifts)
    return noted


def note_measured_shifts(
    files: CheckpointFiles, request_topic: str, *, differ_ms: int, ahead_ms: Mapping[int, float]
) -> list[Shift]:
    """Note the shifts of clocks that were measured to be wrong, for the requests that are not planned yet.

    Returns them. The arguments are those of `note_shifts`. Raises `CheckpointError`.
    """
    planned = newest_planned(files)
    if planned is None:
        return []
    ends = planned.offsets.get(request_topic, {})
    shifts = read_shifts(files)
    noted = []
    for partition in sorted(ends.keys() & ahead_ms.keys()):
        after = put_right(shifts, partition, ends[partition], -round(ahead_ms[partition]), differ_ms)
        if after is not None:
            shifts = after
            noted.append(after[-1])
    if noted:
        write_shifts(files, shifts)
    return noted


def _size(before: Mapping[str, Mapping[int, int]], after: Mapping[str, Mapping[int, int]]) -> int:
    """How many records a batch has, of all topics. Spark limits that, and rounds for each partition."""
    return sum(
        end - before.get(topic, {}).get(partition, 0)
        for topic, ends in after.items()
        for partition, end in ends.items()
    )
