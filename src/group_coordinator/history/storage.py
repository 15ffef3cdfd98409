"""The tables as they are stored: made, kept up to date with this version, and kept small."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, cast

from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.history.errors import HistoryError
from group_coordinator.history.tables import ALL_TABLES, EVENTS, Table
from group_coordinator.jobs.session import DELTA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

DELTA_DEFAULTS = DELTA | {
    # These are meant for tables of a hundred thousand files; each of so many tasks costs time here.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
SESSION_DEFAULTS = DELTA_DEFAULTS | {
    "spark.app.name": "group-coordinator-history",
    # The coordinator's settings are for tiny batches, and do not suit these.
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
}
_AT_ONCE = 4
_FILE = "retention.txt"
"""The day on which old rows and files were last deleted, as in 2026-01-31."""


def prepare_tables(spark: SparkSession, path: str) -> bool:
    """Make the tables that are missing under `path`, and add the columns that are new.

    Returns whether all tables are new. Raises `HistoryError` if a table has columns of other types, because
    it is somebody else's.
    """
    # Delta's own bookkeeping leaves the executors idle.
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        are_new = list(threads.map(lambda table: _prepare(spark, path, table), ALL_TABLES))
    # Not before all of them are there: at the first table that is not new, `all` would cancel the others.
    return all(are_new)


def _prepare(spark: SparkSession, path: str, table: Table) -> bool:
    """Whether the table is new."""
    location = f"{path}/{table.name}"
    wanted = cast("StructType", StructType.fromDDL(table.all_columns))
    if not DeltaTable.isDeltaTable(spark, location):
        _create(spark, table, location, wanted)
        return True
    there = {field.name: field for field in spark.read.format("delta").load(location).schema.fields}
    missing = [field for field in wanted.fields if field.name not in there]
    for field in wanted.fields:
        if field not in missing and there[field.name].dataType != field.dataType:
            raise HistoryError(
                f"{location} is not a table of this history: {field.name} is "
                f"{there[field.name].dataType.simpleString()}, not {field.dataType.simpleString()}; "
                "set history.path to a directory of its own"
            )
    if missing:
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in missing)
        spark.sql(f"ALTER TABLE delta.`{location}` ADD COLUMNS ({columns})")
    return False


def _create(spark: SparkSession, table: Table, location: str, columns: StructType) -> None:
    (
        DeltaTable.createIfNotExists(spark)
        .location(location)
        .comment(table.comment)
        .addColumns(columns)
        .partitionedBy("day")
        # Each batch leaves a file for each day it tells of. From fifty on, Delta makes one of them.
        .property("delta.autoOptimize.autoCompact", "true")
        .execute()
    )


class Retention:
    """Takes out of the tables what is older than `days` (0: nothing), and the files that nobody needs.

    A span goes `days` after it has ended. Files stay as long as Delta keeps them, a week, for readers of
    older versions (`--as-of`). This takes long, and a job with `--once` may be started often. So a file
    beside the tables keeps the last day on which it was done.
    """

    def __init__(self, spark: SparkSession, path: str, days: int) -> None:
        self._spark = spark
        self._path = path
        self._days = days
        self._files = CheckpointFiles(spark, path)
        self._done = self._files.read(_FILE)

    def done(self, today: date) -> None:
        """Note that there is nothing to do today, as with tables that are new."""
        self._done = today.isoformat()
        self._files.write(_FILE, self._done.encode())

    def apply(self, today: date) -> int:
        """Do it, once a day. Returns how many days of events went."""
        if self._done == today.isoformat():
            return 0
        days = 0
        for table in ALL_TABLES:
            stored = DeltaTable.forPath(self._spark, f"{self._path}/{table.name}")
            if self._days:
                first = F.lit(today - timedelta(days=self._days))
                old = F.col("day") < first
                if table.is_of_spans:
                    old = (F.col("day").isNull() | old) & (F.col("until") < first)
                if table is EVENTS:
                    days = stored.toDF().where(old).select("day").distinct().count()
                stored.delete(old)
            with _quiet(self._spark):
                stored.vacuum()
        self.done(today)
        return days


@contextmanager
def _quiet(spark: SparkSession) -> Iterator[None]:
    """Keep what this thread prints in Java from the terminal: Delta prints how many files it has deleted."""
    jvm: Any = spark._jvm  # noqa: SLF001
    # Scala's own output, which is one for each thread. Delta has no setting for what it prints there.
    console = getattr(getattr(jvm.scala, "Console$"), "MODULE$")
    before = console.out()
    console.setOutDirect(jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream()))
    try:
        yield
    finally:
        console.setOutDirect(before)
