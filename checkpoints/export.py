"""An export: all groups as of a batch, with what is needed to make a checkpoint of them again.

It is a header and a row for each group. The row has the stored group as it is, which is what a restore reads,
and next to it the same for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.identity import Identity, known_identity
from group_coordinator.checkpoints.ledger import Ledger, Notes
from group_coordinator.checkpoints.offset_log import newest_committed, read_batch
from group_coordinator.checkpoints.readable import readable
from group_coordinator.checkpoints.state import State
from group_coordinator.coordinator_state.deadlines import Deadlines
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill
from group_coordinator.coordinator_state.stored import READABLE_VERSIONS, SCHEMA_VERSION, decode_group
from group_coordinator.jobs.batches import Offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from group_coordinator.checkpoints.offset_log import PlannedBatch

_FORMAT_VERSION = 1


class ExportHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of an export. Times are in ms of log time.

    `schema_version`: that of its groups. `offsets`: the next record to be read, by topic
    and partition. `watermark_ms`: deadlines up to it have fired, or fire next. `groups`: how many follow.
    `identity`: the checkpoint's, without the secret unless that was asked for. `outages` and
    `standstills`: deadlines depend on them, so they go where the groups go.
    """

    format_version: int = _FORMAT_VERSION
    schema_version: int
    batch_id: int
    offsets: Offsets
    watermark_ms: int
    groups: int
    identity: Identity
    outages: list[Outage] = []
    standstills: list[Standstill] = []

    @property
    def notes(self) -> Notes:
        """The notes of the checkpoint's ledger."""
        # Batches have other numbers where these notes go.
        outages = tuple(it._replace(batch=0) for it in self.outages)
        return Notes(outages, tuple(it._replace(batch=0, end_batch=0) for it in self.standstills))


class ExportedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group: `state` is what the checkpoint has, and `group` the same to be read by people.

    `deadline_ms`: when something is due in it next if nothing comes; None: nothing is.
    """

    group_id: str
    deadline_ms: int | None
    state: bytes
    group: dict[str, Any]


class Export(msgspec.Struct, frozen=True):
    """A header and its groups, by group id. They can be read once."""

    header: ExportHeader
    groups: Iterator[ExportedGroup]


def export_checkpoint(
    spark: SparkSession, checkpoint: str, batch_id: int | None = None, *, with_secret: bool = False
) -> Export:
    """Read the groups as of a batch, the newest one that is committed if none is given.

    The query may run meanwhile. Raises `CheckpointError`, also while the groups are read.
    """
    files = CheckpointFiles(spark, checkpoint)
    identity = known_identity(files)
    batch, watermark_ms = committed_batch(files, batch_id)
    state = State(spark, checkpoint, batch.batch_id)
    notes = Ledger.read(files).notes
    header = ExportHeader(
        schema_version=SCHEMA_VERSION,
        batch_id=batch.batch_id,
        offsets=batch.offsets,
        watermark_ms=watermark_ms,
        groups=state.count(),
        identity=identity if with_secret else msgspec.structs.replace(identity, secret=""),
        outages=list(notes.outages),
        standstills=list(notes.standstills),
    )
    return Export(header, _groups(state))


def committed_batch(files: CheckpointFiles, batch_id: int | None = None) -> tuple[PlannedBatch, int]:
    """A batch that is done, the newest if none is given, and the watermark after it."""
    batch = newest_committed(files) if batch_id is None else read_batch(files, batch_id)
    if batch is None:
        raise CheckpointError(f"checkpoint {files.checkpoint} has no committed batch yet: nothing is in it")
    if batch.next_watermark_ms is None:
        raise CheckpointError(
            f"batch {batch.batch_id} of checkpoint {files.checkpoint} is not committed: wait, or name the "
            "one before it"
        )
    return batch, batch.next_watermark_ms


def checked_export(name: str, header: ExportHeader, groups: Iterator[ExportedGroup]) -> Export:
    """An export that was kept as `name`.

    Raises `CheckpointError` for half of one, or if another version of the program has written it.
    """
    if header.format_version != _FORMAT_VERSION or header.schema_version not in READABLE_VERSIONS:
        raise CheckpointError(f"{name} was written by another version of this program: use that one")
    return Export(header, _counted(name, header.groups, groups))


def _counted(name: str, expected: int, groups: Iterator[ExportedGroup]) -> Iterator[ExportedGroup]:
    count = 0
    for group in groups:
        count += 1
        yield group
    if count != expected:
        raise CheckpointError(f"{name} has {count} groups and should have {expected}: export again")


def _groups(state: State) -> Iterator[ExportedGroup]:
    for stored in state.groups():
        group = decode_group(stored.state)
        yield ExportedGroup(
            group_id=stored.group_id,
            deadline_ms=Deadlines(group).next_ms(),
            state=stored.state,
            group=readable(group),
        )
