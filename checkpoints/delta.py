"""Exports as Delta tables: a row for each group, and one without a group id that has the header.

The header is written last: a table without it was not written to the end.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.export import ExportedGroup, ExportHeader, checked_export
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.frames import frames
from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError
from group_coordinator.jobs.java_errors import first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from group_coordinator.checkpoints.export import Export

_SCHEMA = "group_id STRING, deadline_ms BIGINT, state BINARY, group STRING, header STRING"

_T = TypeVar("_T")


def write_delta(spark: SparkSession, export: Export, directory: str) -> None:
    """Write `export` as a new table, for its owner only.

    Raises `CheckpointError` if there is something at `directory`, or it cannot be written.
    """
    files = CheckpointFiles(spark, directory, "export")
    if files.list():
        raise CheckpointError(f"cannot write {directory}: it already exists; name a new directory")
    # Before anything is in it: the secret may be, and Delta's files have the mode that all new files have.
    files.make_private()
    groups = (
        (each.group_id, each.deadline_ms, each.state, msgspec.json.encode(each.group).decode(), None)
        for each in export.groups
    )
    header = (None, None, None, None, msgspec.json.encode(export.header).decode())
    mode = "errorifexists"
    try:
        for frame in chain(frames(spark, groups, _SCHEMA), frames(spark, [header], _SCHEMA)):
            frame.write.format("delta").mode(mode).save(directory)
            mode = "append"
    except (Py4JJavaError, PySparkException) as error:
        raise CheckpointError(f"cannot write {directory}: {first_line(error)}") from None


def is_delta(spark: SparkSession, directory: str) -> bool:
    """Whether there is a Delta table."""
    return bool(DeltaTable.isDeltaTable(spark, directory))


def read_delta(spark: SparkSession, directory: str) -> Export:
    """Read an export. Raises `CheckpointError`, also while the groups are read."""
    try:
        rows = spark.read.format("delta").load(directory)
        headers = [row.header for row in rows.where("header IS NOT NULL").select("header").collect()]
        groups = iter(rows.where("header IS NULL").orderBy(F.encode("group_id", "utf-8")).toLocalIterator())
    except (Py4JJavaError, PySparkException) as error:
        raise CheckpointError(f"cannot read {directory}: {first_line(error)}") from None
    if len(headers) != 1:
        raise CheckpointError(f"{directory} is not an export, or not a whole one: export again")
    header = _decode(directory, headers[0], ExportHeader)
    return checked_export(directory, header, _groups(directory, groups))


def _groups(directory: str, rows: Iterator[Any]) -> Iterator[ExportedGroup]:
    for row in rows:
        yield ExportedGroup(
            group_id=row.group_id,
            deadline_ms=row.deadline_ms,
            state=bytes(row.state),
            group=_decode(directory, row.group, dict[str, Any]),
        )


def _decode(directory: str, text: str, type_: type[_T]) -> _T:
    try:
        return ForeignJson[_T](type_).read(text)
    except UnreadableError as error:
        raise CheckpointError(f"{directory} is not an export: {error}") from None
