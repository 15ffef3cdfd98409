"""A new checkpoint from an export.

Only Spark writes state as Spark reads it. So a query of one batch puts the groups through the stateful
operator of the coordinator. Then it passes for the batch after which the coordinator begins. For this,
Spark's log is made to say how far the request topic was read, instead of which files.

The identity is written at the end. Until then a coordinator finds a file that says that this is no checkpoint
yet, and does not start from it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from group_coordinator.checkpoints.disk import plain_place
from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.frames import frames
from group_coordinator.checkpoints.identity import PARTITIONS, RESTORING, read_identity, write_identity
from group_coordinator.checkpoints.ledger import Ledger, Notes
from group_coordinator.checkpoints.offset_log import rewrite_first_batch
from group_coordinator.checkpoints.timeouts import timeout_of
from group_coordinator.coordinator_state.deadlines import Deadlines
from group_coordinator.coordinator_state.stored import SCHEMA_VERSION, decode_group
from group_coordinator.jobs.java_errors import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

    from group_coordinator.checkpoints.export import Export, ExportedGroup
    from group_coordinator.checkpoints.identity import Identity
    from group_coordinator.jobs.batches import Offsets

    PerGroup = Callable[[DataFrame, Callable[..., Iterator[pd.DataFrame]]], DataFrame]
    """The coordinator's stateful operator with a function to run in it (`streaming.query.per_group`)."""

_STAGED = f"{RESTORING}.groups"
# The columns of a log, as the operator wants them: the group is the value, its deadline the time.
_SCHEMA = "key BINARY, partition INT, offset BIGINT, timestamp_ms BIGINT, value BINARY, clock TIMESTAMP"
# A batch is planned only if there is something to read, and there may be no groups.
_NOTHING = (None, None, None, None, None, None)


def restore_checkpoint(
    spark: SparkSession,
    export: Export,
    checkpoint: str,
    identity: Identity,
    offsets: Offsets,
    per_group: PerGroup,
) -> None:
    """Make `checkpoint` from `export`, under another identity, going on at `offsets` of the topics.

    Raises `CheckpointError` if there is something at `checkpoint`, if the export is not whole, or if it
    cannot be written.
    """
    files = CheckpointFiles(spark, checkpoint)
    if read_identity(files) is None and files.exists(RESTORING):
        raise CheckpointError(f"{checkpoint} was not restored to the end: delete the directory first")
    if files.list():
        raise CheckpointError(f"{checkpoint} is not empty: name a new directory")
    files.write(RESTORING, b"")
    staged = files.name(_STAGED)
    with _spark_errors(checkpoint):
        for frame in frames(spark, _rows(export.groups), _SCHEMA):
            frame.write.mode("append").parquet(staged)
        with plain_place(staged) as place:
            _run_one_batch(spark, place, checkpoint, identity.state_partitions, per_group)
    rewrite_first_batch(files, offsets, export.header.watermark_ms)
    files.delete("sources")
    files.delete(_STAGED)
    before, notes = export.header.identity, export.header.notes
    topic = identity.request_topic
    if before.request_topic != topic or before.topic_ids.get(topic) != identity.topic_ids.get(topic):
        # The others name offsets and partitions of that topic.
        notes = Notes(notes.outages)
    Ledger(files, notes).write()
    write_identity(files, msgspec.structs.replace(identity, schema_version=SCHEMA_VERSION))
    files.delete(RESTORING)


def _rows(groups: Iterable[ExportedGroup]) -> Iterator[tuple[Any, ...]]:
    yield _NOTHING
    for exported in groups:
        deadline_ms = Deadlines(decode_group(exported.state)).next_ms()
        yield exported.group_id.encode(), 0, 0, deadline_ms, exported.state, None


def _run_one_batch(
    spark: SparkSession,
    staged: str,
    checkpoint: str,
    state_partitions: int,
    per_group: PerGroup,
) -> None:
    # Without a watermark there are no event-time timeouts; with nothing on the clock it stays at 0, which no
    # deadline is before.
    log = spark.readStream.schema(_SCHEMA).parquet(staged).withWatermark("clock", "0 seconds")
    with setting(spark, PARTITIONS, str(state_partitions)):
        query = (
            per_group(log, _put)
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
    query.awaitTermination()


def _put(
    _key: tuple[bytes | None], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Store the group that is the one row's value."""
    for frame in frames:
        for value, deadline_ms in zip(frame["value"], frame["timestamp_ms"], strict=True):
            if value is not None:
                state.update((bytes(value),))
                if deadline_ms is not None:
                    state.setTimeoutTimestamp(timeout_of(int(deadline_ms)))
    yield from ()


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a property of the session while the context is open. A query keeps what it was started with."""
    before = str(spark.conf.get(name))
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


@contextmanager
def _spark_errors(checkpoint: str) -> Iterator[None]:
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise CheckpointError(f"cannot restore to {checkpoint}: {first_line(error)}") from None
