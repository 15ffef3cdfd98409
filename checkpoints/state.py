"""The groups as Spark stores them, read with Spark's state data source: also while the query runs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from group_coordinator.checkpoints.disk import plain_place
from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.jobs.java_errors import cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession


class StoredGroup(NamedTuple):
    """A row of state.

    `state`: the group as `group_coordinator.coordinator_state.step` encodes it. `partition`: of state.
    """

    group_id: str
    state: bytes
    partition: int


class State:
    """The state after a batch that is committed, read once: all calls tell of the same.

    A running query deletes the state of old batches, so all methods raise `CheckpointError`.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, batch_id: int) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._batch_id = batch_id
        # The data source asks a coordinator of state stores, which comes with the manager of queries; and
        # that only comes when it is first asked for.
        _ = spark.streams.active

    def count(self) -> int:
        """The number of groups."""
        return int(self._read(lambda rows: rows.count()))

    def groups(self) -> Iterator[StoredGroup]:
        """All groups by group id, a part at a time: they need not fit into the driver's memory."""
        rows = self._read(lambda rows: iter(rows.orderBy("key").toLocalIterator(prefetchPartitions=True)))
        while (row := self._read(lambda _: next(rows, None))) is not None:
            yield StoredGroup(bytes(row.key).decode(), bytes(row.state), row.partition)

    @cached_property
    def _rows(self) -> DataFrame:
        source = self._spark.read.format("statestore").option("batchId", self._batch_id)
        # Kept by the executors until it is not referred to any more: what is read twice may be gone the
        # second time.
        with plain_place(self._checkpoint) as place:
            return (
                source.load(place)
                .select(
                    F.col("key.key").alias("key"),
                    F.col("value.groupState.group").alias("state"),
                    F.col("partition_id").alias("partition"),
                )
                .localCheckpoint()
            )

    def _read(self, read: Callable[[DataFrame], Any]) -> Any:
        try:
            return read(self._rows)
        except (Py4JJavaError, PySparkException) as error:
            raise CheckpointError(
                f"cannot read the state of batch {self._batch_id} in {self._checkpoint}: {cause(error)}. "
                "If it is in use, this may have been cleaned up meanwhile: try again with the newest batch"
            ) from None
