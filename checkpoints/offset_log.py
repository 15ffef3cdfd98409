"""Spark's own record of a query's batches: what each was planned to read, and which are committed.

Spark plans a batch by writing `offsets/N`, which has `v1`, a line of metadata, and a line for each source.
Here these are Kafka's end offsets. The batch is done when `commits/N` is there. Planned and not committed is
at most the newest one: it was running, and runs again at the next start, with the same records.

Source: org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog and CommitLog of Spark 4.2.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeVar

import msgspec

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError
from group_coordinator.jobs.batches import Offsets

if TYPE_CHECKING:
    from group_coordinator.checkpoints.files import CheckpointFiles

_VERSION = "v1"
_NO_OFFSET = "-"
"""Spark's text for a source that has nothing yet."""

_T = TypeVar("_T")


class PlannedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as it was planned. Times are in ms.

    `watermark_ms`: log time up to which deadlines fire in this batch; 0 before the first tick.
    `next_watermark_ms`: the watermark of the batch after it; None as long as this one is not committed.
    `timestamp_ms`: when it was planned, by the driver's clock.
    `offsets`: where it ends. `conf`: the properties of Spark that are kept as they were.
    """

    batch_id: int
    watermark_ms: int
    timestamp_ms: int
    offsets: Offsets
    next_watermark_ms: int | None
    conf: dict[str, str]

    @property
    def is_committed(self) -> bool:
        """Whether it is done, and its state complete."""
        return self.next_watermark_ms is not None


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    batch_watermark_ms: int
    batch_timestamp_ms: int
    conf: dict[str, str] = {}


class _Commit(msgspec.Struct, frozen=True, rename="camel"):
    next_batch_watermark_ms: int


def planned_batches(files: CheckpointFiles) -> list[int]:
    """The batches whose plans are kept, oldest first."""
    return _numbers(files, "offsets")


def committed_batches(files: CheckpointFiles) -> list[int]:
    """The batches whose commits are kept, oldest first."""
    return _numbers(files, "commits")


def newest_planned(files: CheckpointFiles) -> PlannedBatch | None:
    """The newest batch, committed or not; None if none was ever planned."""
    batches = planned_batches(files)
    return read_batch(files, batches[-1]) if batches else None


def read_before(files: CheckpointFiles, planned: PlannedBatch, by_ms: int) -> Offsets:
    """The offsets where the newest batch ends that was planned at least `by_ms` before `planned`.

    If none such is kept, where the oldest one ends; empty if there is no other.
    """
    batches = [it for it in planned_batches(files) if it < planned.batch_id]
    latest_ms = planned.timestamp_ms - by_ms
    # Only plans are looked at: in an object store each look is a call, and a start waits for it.
    place = bisect_right(batches, latest_ms, key=lambda it: _read_plan(files, it)[0].batch_timestamp_ms)
    return _read_plan(files, batches[max(0, place - 1)])[1] if batches else {}


def newest_committed(files: CheckpointFiles) -> PlannedBatch | None:
    """The newest batch that is done; None if there is none."""
    batches = committed_batches(files)
    return read_batch(files, batches[-1]) if batches else None


def read_batch(files: CheckpointFiles, batch_id: int) -> PlannedBatch:
    """Read what is kept of a batch. Raises `CheckpointError` if it is not kept, or in a way unknown here."""
    # Committed while this reads: then the plan is as good as before, and the watermark known.
    metadata, offsets = _read_plan(files, batch_id)
    commit = _lines(files, f"commits/{batch_id}")
    return PlannedBatch(
        batch_id=batch_id,
        watermark_ms=metadata.batch_watermark_ms,
        timestamp_ms=metadata.batch_timestamp_ms,
        offsets=offsets,
        next_watermark_ms=None if commit is None else _next_watermark_ms(files, batch_id, commit),
        conf=metadata.conf,
    )


def _read_plan(files: CheckpointFiles, batch_id: int) -> tuple[_Metadata, Offsets]:
    name = f"offsets/{batch_id}"
    lines = _lines(files, name)
    if lines is None:
        kept = planned_batches(files)
        which = f"it has {kept[0]} to {kept[-1]}" if kept else "it has none"
        raise CheckpointError(f"checkpoint {files.checkpoint} has no batch {batch_id}: {which}")
    if len(lines) != 2:  # noqa: PLR2004 - the metadata, and one source
        raise _unreadable(files, name, f"it has {max(len(lines) - 1, 0)} sources, and a coordinator has one")
    metadata = _decode(files, name, lines[0], _Metadata)
    return metadata, {} if lines[1] == _NO_OFFSET else _decode(files, name, lines[1], Offsets)


def rewrite_first_batch(files: CheckpointFiles, offsets: Offsets, watermark_ms: int) -> None:
    """Make the first batch, of any source, end at `offsets` and leave the next one this watermark.

    Only for a checkpoint in which it is the only batch, and done.
    """
    name = "offsets/0"
    lines = _lines(files, name)
    if lines is None or planned_batches(files) != [0] or committed_batches(files) != [0]:
        raise CheckpointError(f"checkpoint {files.checkpoint} has not just one batch: name a new directory")
    before = _decode(files, name, lines[0], _Metadata)
    _write(files, name, _Metadata(watermark_ms, before.batch_timestamp_ms, before.conf), offsets)
    _write(files, "commits/0", _Commit(watermark_ms))


def _write(files: CheckpointFiles, name: str, *lines: object) -> None:
    files.write(name, b"\n".join([_VERSION.encode(), *map(msgspec.json.encode, lines)]))


def _next_watermark_ms(files: CheckpointFiles, batch_id: int, commit: list[str]) -> int:
    name = f"commits/{batch_id}"
    if len(commit) != 1:
        raise _unreadable(files, name, f"it has {len(commit) + 1} lines instead of 2")
    return _decode(files, name, commit[0], _Commit).next_batch_watermark_ms


def _numbers(files: CheckpointFiles, directory: str) -> list[int]:
    # Beside them are files that are being written, with names of other kinds.
    return sorted(int(name) for name in files.list(directory) if name.isdecimal())


def _lines(files: CheckpointFiles, name: str) -> list[str] | None:
    """The lines after the version; None if there is no such file."""
    text = files.read(name)
    if text is None:
        return None
    version, *lines = text.rstrip("\n").split("\n")
    if version != _VERSION:
        raise CheckpointError(
            f"{files.name(name)} has version {version[:20]!r} of Spark's log, and this program reads "
            f"{_VERSION}: use the version of Spark and of this program that wrote it"
        )
    return lines


def _decode(files: CheckpointFiles, name: str, line: str, type_: type[_T]) -> _T:
    try:
        return ForeignJson[_T](type_).read(line)
    except UnreadableError as error:
        raise _unreadable(files, name, str(error)) from None


def _unreadable(files: CheckpointFiles, name: str, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{files.name(name)} is not a log of the coordinator's query ({reason}): "
        "choose the checkpoint of a coordinator, or restore one from an export"
    )
