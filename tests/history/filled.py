"""Tables with a few groups in them, which some tests look at and nobody changes."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from group_coordinator.history.settings import HistorySettings
from group_coordinator.history.storage import prepare_tables
from group_coordinator.history.tables import ALL_TABLES, EVENTS, TABLES, Table
from group_coordinator.history.writer import HistoryWriter, Written
from tests.history.consumers import a_handover
from tests.history.scripts import a_day, a_night, bodies, renamed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CUT", "DAY", "MOVING", "NAMES", "NIGHT", "UNKNOWN", "PowerCutError", "Tables", "fill"]

DAY = bodies(a_day())
# In the second part somebody goes who came in the first, somebody owns what was another's, and all goes.
CUT = next(i for i, body in enumerate(DAY) if b"session_expired" in body)
HANDOVER = a_handover().bodies
# m1 has been told to give up what m2 waits for.
HANDOVER_CUT = next(i for i, body in enumerate(HANDOVER) if b'"revoking":"AAA' in body) + 1
NAMES = [table.name for table in TABLES]


NIGHT = "the 'night'\\shift"
"""A group id that has to be quoted."""
MOVING = "moving"
"""A group of the consumer protocol, of which one member waits for another one where the batches are cut."""
UNKNOWN = b'{"event_id":"n","at_ms":1000,"group_id":"new","generation_id":1,"event":"of_a_version_to_come"}'


class PowerCutError(Exception):
    pass


class Tables:
    """Tables in a directory of their own, and how to write and to look at them."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.path = str(path)
        prepare_tables(spark, self.path)
        self.writer = HistoryWriter(spark, HistorySettings(history_path=self.path))

    def write(self, *records: bytes, until: str | None = None) -> Written:
        """A batch of records. `until`: the table that is not written any more when the power is cut."""
        merge = self.writer._merge

        def failing(table: Table, rows: DataFrame) -> int:
            if table.name == until:
                raise PowerCutError
            return merge(table, rows)

        frame = self.spark.createDataFrame(
            [(value, 0, offset) for offset, value in enumerate(records)],
            "value BINARY, partition INT, offset BIGINT",
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.writer, "_merge", failing)
            return self.writer.write(frame)

    def rows(self, table: str, group_id: str) -> list[dict[str, Any]]:
        found = self.spark.read.format("delta").load(f"{self.path}/{table}")
        rows = [row.asDict() for row in found.where(found.group_id == group_id).collect()]
        return sorted(rows, key=lambda row: [str(it) for name, it in row.items() if name != "log_offset"])

    def ask_spark(self, sql: str) -> list[tuple[Any, ...]]:
        """What Spark answers to a question, of the tables as they were at the first one."""
        self._make_views()
        return [tuple(row) for row in self.spark.sql(sql).collect()]

    @cache  # noqa: B019 - there are as many of them as tests
    def _make_views(self) -> None:
        for table in ALL_TABLES:
            frame = self.spark.read.format("delta").load(f"{self.path}/{table.name}")
            frame.createOrReplaceTempView(table.name)

    def everything(self, group_id: str) -> dict[str, list[dict[str, Any]]]:
        """All rows of a group, as if it were the first."""
        found = {table.name: self.rows(table.name, group_id) for table in (EVENTS, *TABLES)}
        text = msgspec.json.encode(found).replace(group_id.encode(), b"group-a")
        tables: dict[str, list[dict[str, Any]]] = msgspec.json.decode(text)
        for row in itertools.chain.from_iterable(tables.values()):
            row.pop("log_offset", None)
        return tables


def fill(spark: SparkSession, path: Path) -> Tables:
    """The day of several groups that have different fates on its way into the tables, and a night of one."""
    tables = Tables(spark, path)
    first, second = renamed(DAY, "group-b")[:CUT], renamed(DAY, "group-b")[CUT:]
    moving = renamed(HANDOVER, MOVING)
    # The first group has its whole day at once; and there are records that are no events.
    tables.write(
        *renamed(DAY, "group-a"),
        *first,
        b"",
        b"?",
        b"{}",
        b'{"event_id":7}',
        UNKNOWN,
        *renamed(bodies(a_night()), NIGHT),
        *moving[:HANDOVER_CUT],
    )
    with pytest.raises(PowerCutError):
        tables.write(*second, *moving[HANDOVER_CUT:], until="events")
    # When there is power again the batch is another one; and the topic has it all twice.
    tables.write(*first, *second, *second, *moving)
    return tables
