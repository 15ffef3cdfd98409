"""The two forms of an export, by name: FILE.jsonl has JSON lines, any other name is a Delta table's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from group_coordinator.commands.terminal import need

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from group_coordinator.checkpoints.export import Export


def is_json_lines(name: str) -> bool:
    """Whether an export of this name has JSON lines, which need no Spark."""
    return name.endswith(".jsonl")


def read_export(spark: SparkSession | None, name: str) -> Export:
    """Read an export of either form; without Spark only JSON lines. Raises `CheckpointError`."""
    from group_coordinator.checkpoints.json_lines import read_json_lines

    if spark is None or is_json_lines(name):
        return read_json_lines(Path(name))
    need("delta", "delta")
    from group_coordinator.checkpoints.delta import read_delta

    return read_delta(spark, name)


def write_export(spark: SparkSession, export: Export, name: str) -> None:
    """Write an export in either form. Raises `CheckpointError`."""
    from group_coordinator.checkpoints.json_lines import write_json_lines

    if is_json_lines(name):
        write_json_lines(export, Path(name))
        return
    need("delta", "delta")
    from group_coordinator.checkpoints.delta import write_delta

    write_delta(spark, export, name)
