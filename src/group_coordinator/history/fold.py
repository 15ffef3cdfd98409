"""The fold of events into rows: each row once, as the last event about it has left it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.history.rows import rows_of
from group_coordinator.history.spans import Spans
from group_coordinator.history.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.events import AnyEvent
    from group_coordinator.history.rows import Row
    from group_coordinator.history.tables import Table

_TABLES = {table.row: table for table in TABLES}


def table_of(row: Row) -> Table:
    """The table that a row belongs to."""
    return _TABLES[type(row)]


def fold(events: Iterable[tuple[int, AnyEvent]], spans: Spans | None = None) -> list[Row]:
    """The rows that a group's events make, and those of `spans` that they end.

    Each event comes with its offset, once, and in order; `spans` are those that had not ended before.
    """
    spans = spans or Spans()
    rows: dict[tuple[object, ...], Row] = {}
    for log_offset, event in events:
        for row in rows_of(event, log_offset):
            rows[_key(row)] = row
        spans.take(event)
    for span in spans.changed:
        rows[_key(span)] = span
    return list(rows.values())


def _key(row: Row) -> tuple[object, ...]:
    table = table_of(row)
    return (table.name, *(getattr(row, name) for name in table.key))
