"""The tables of a few events, written without Spark: for tests of those who read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from deltalake import write_deltalake

from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.history.fold import fold, table_of
from group_coordinator.history.rows import time_of
from group_coordinator.history.tables import ALL_TABLES, LAG, Table

__all__ = ["lag_rows", "write_plain_tables"]

_TYPES = {
    "STRING": pa.string(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
}


def lag_rows(group_id: str, *measured: tuple[int, int]) -> list[dict[str, Any]]:
    """Rows of the table of lag: second and records of each measurement, which tells of half a minute."""
    return [
        {
            "group_id": group_id,
            "at": time_of(at_s * 1_000),
            "until": time_of(at_s * 1_000 + 30_000),
            "topic": topic,
            "partitions": 2,
            "records": records,
            "age_ms": records * 100,
            "error_ms": 50,
            "at_least": False,
            "status": "ok",
            "trend": "growing",
        }
        for at_s, records in measured
        for topic in ("orders", "refunds")
    ]


def write_plain_tables(
    path: Path,
    *groups: Iterable[AnyEvent],
    lag: Iterable[dict[str, Any]] = (),
    without: Collection[str] = (),
) -> None:
    """Make or add to the tables under `path`; each of `groups` is what happened to one.

    `lag`: rows of that table. `without`: tables that are not written, and columns (as `joins.is_first`) that
    are not.
    """
    rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in ALL_TABLES}
    rows[LAG.name] += lag
    for events in groups:
        told = list(enumerate(events))
        rows["events"] += (_event(event, offset) for offset, event in told)
        for row in fold(told):
            rows[table_of(row).name].append(msgspec.structs.asdict(row))
    for table in ALL_TABLES:
        if table.name in without:
            continue
        content = pa.Table.from_pylist([_with_day(table, row) for row in rows[table.name]], schema(table))
        content = content.drop_columns(
            [name for name in content.column_names if f"{table.name}.{name}" in without]
        )
        write_deltalake(path / table.name, content, partition_by=["day"], mode="append")


def schema(table: Table) -> pa.Schema:
    columns = (column.split() for column in table.all_columns.split(", "))
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns])


def _event(event: AnyEvent, offset: int) -> dict[str, Any]:
    return {
        "event_id": event.event_id,
        "at": time_of(event.at_ms),
        "group_id": event.group_id,
        "generation_id": event.generation_id,
        "event": str(event.__struct_config__.tag),
        "request_id": event.request_id,
        "principal": event.principal or None,
        "body": msgspec.json.encode(event).decode(),
        "log_partition": 0,
        "log_offset": offset,
    }


def _with_day(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    begin: datetime | None = row[table.begin]
    return row | {"day": begin and begin.date()}
