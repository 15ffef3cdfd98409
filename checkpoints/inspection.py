"""The contents of a checkpoint, for people and for monitoring."""

from __future__ import annotations

from collections import Counter
from heapq import nlargest
from typing import TYPE_CHECKING

import msgspec

from group_coordinator.checkpoints.disk import room_of
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.identity import Identity, known_identity
from group_coordinator.checkpoints.ledger import Ledger
from group_coordinator.checkpoints.offset_log import (
    PlannedBatch,
    committed_batches,
    newest_planned,
    planned_batches,
    read_batch,
)
from group_coordinator.checkpoints.state import State
from group_coordinator.coordinator_state.committed import CommittedOffsets
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.stored import decode_group
from group_coordinator.jobs.batches import Offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LARGEST = 10


class GroupSize(msgspec.Struct, frozen=True, kw_only=True):
    """A group and how much there is of it. `bytes`: of its row of state."""

    group_id: str
    state: str
    members: int
    offsets: int
    bytes: int


class GroupsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All groups as of a batch. `bytes`: of their rows of state; `partitions`: groups in each partition."""

    total: int
    by_state: dict[str, int]
    members: int
    offsets: int
    bytes: int
    partitions: dict[int, int]
    largest: list[GroupSize]


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as of a batch. Times are in ms.

    `identity`: without the secret. `planned` and `committed`: the oldest and the newest batch of which this
    is kept, None if none is. `batch`: the one that was asked for, or the newest committed one. `groups`: None
    if it is not committed. `bytes`: what is in all files. `disk_bytes`: what they take of the disk, in whole
    blocks, with their checksums; None if they are not on a disk of this machine.
    """

    checkpoint: str
    identity: Identity
    planned: tuple[int, int] | None
    committed: tuple[int, int] | None
    batch: PlannedBatch | None
    groups: GroupsSummary | None
    bytes: int
    disk_bytes: int | None
    outages: list[Outage]

    @property
    def offsets(self) -> Offsets:
        """The end offsets of the batch."""
        return self.batch.offsets if self.batch else {}


def inspect_checkpoint(spark: SparkSession, checkpoint: str, batch_id: int | None = None) -> Inspection:
    """Look at a checkpoint as of a batch, the newest one that is committed if none is given.

    The query may run meanwhile. Raises `CheckpointError`.
    """
    files = CheckpointFiles(spark, checkpoint)
    identity = known_identity(files)
    planned, committed = planned_batches(files), committed_batches(files)
    if batch_id is None and committed:
        batch_id = committed[-1]
    batch = newest_planned(files) if batch_id is None else read_batch(files, batch_id)
    groups = None
    if batch is not None and batch.is_committed:
        groups = _summary(State(spark, checkpoint, batch.batch_id))
    room = room_of(checkpoint)
    return Inspection(
        checkpoint=checkpoint,
        identity=msgspec.structs.replace(identity, secret=""),
        planned=_ends(planned),
        committed=_ends(committed),
        batch=batch,
        groups=groups,
        bytes=files.size(),
        disk_bytes=None if room is None else room.taken,
        outages=list(Ledger.read(files).notes.outages),
    )


def _summary(state: State) -> GroupsSummary:
    by_state: Counter[str] = Counter()
    partitions: Counter[int] = Counter()
    members = offsets = size = 0
    largest: list[GroupSize] = []
    for stored in state.groups():
        group = decode_group(stored.state)
        committed = len(CommittedOffsets(group.offsets))
        by_state[group.state] += 1
        partitions[stored.partition] += 1
        members += len(group.members)
        offsets += committed
        size += len(stored.state)
        it = GroupSize(
            group_id=group.group_id,
            state=group.state,
            members=len(group.members),
            offsets=committed,
            bytes=len(stored.state),
        )
        largest = nlargest(_LARGEST, [*largest, it], key=lambda each: each.bytes)
    return GroupsSummary(
        total=by_state.total(),
        by_state=dict(sorted(by_state.items())),
        members=members,
        offsets=offsets,
        bytes=size,
        partitions=dict(sorted(partitions.items())),
        largest=largest,
    )


def _ends(batches: list[int]) -> tuple[int, int] | None:
    return (batches[0], batches[-1]) if batches else None
