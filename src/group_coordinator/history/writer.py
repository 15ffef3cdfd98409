"""The writer of the tables, which makes rows of a batch of events, each once.

The topic may have an event twice, because the coordinator runs a batch again after a failure. A batch of this
query may also run twice. So nothing is appended: every row has a key, and is merged into its table. The table
of events is written last. All other tables already have an event that is in it, so the event is passed over.
Some tables may have an event that is not in it. They get it again, with the same outcome. That needs no
memory of what was done, and holds also after the query's checkpoint is lost.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pandas as pd
from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from group_coordinator.coordinator_state.foreign import MOST_MS
from group_coordinator.history.errors import HistoryError
from group_coordinator.history.fold import fold, table_of
from group_coordinator.history.rows import read_event
from group_coordinator.history.spans import Spans
from group_coordinator.history.tables import EVENTS, TABLES, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, SparkSession

    from group_coordinator.history.settings import HistorySettings

_ENVELOPE = (
    "event_id STRING, at_ms BIGINT, group_id STRING, generation_id INT, event STRING, member_id STRING, "
    "request_id STRING, principal STRING, reason STRING"
)
_SPANS = _MEMBERSHIP, _ASSIGNMENTS, _WAITS = tuple(table for table in TABLES if table.is_of_spans)
# The columns that the end of a span sets.
_ENDING = frozenset({"until", "ended_by", "reason", "client_reason", "session_timeout_ms", "last_commit_ms"})
_ROWS = "table STRING, row STRING"


class Written(NamedTuple):
    """The outcome of a batch: rows added and changed by table, and the time of its newest new event."""

    rows: Mapping[str, int]
    newest_ms: int | None


class HistoryWriter:
    """Writes batches of records of the events' topic into the tables of `settings`, which must be there."""

    def __init__(self, spark: SparkSession, settings: HistorySettings) -> None:
        self._spark, self._settings = spark, settings
        self._path = settings.history_path

    def write(self, records: DataFrame) -> Written:
        """Take in a batch. It may be one that was taken in before."""
        events = self._unknown(_parsed(records)).persist()
        try:
            first_ms, newest_ms, twice = _summed_up(events)
            if twice is not None:
                named, writer = self._settings.named, self._settings.writer
                raise HistoryError(
                    f"two events have the id {twice}, because topics were deleted and made again. Set "
                    f"{named('history.path')} to a new directory and {named('topics.events')}, here and at "
                    f"{writer}, to a new topic"
                )
            if first_ms is None:
                return Written({}, None)
            new = events.drop("is_another")
            rows = self._rows(new, first_ms).persist()
            try:
                merged = self._merge_rows(rows)
            finally:
                rows.unpersist()
            return Written(merged | {EVENTS.name: self._merge(EVENTS, new)}, newest_ms)
        finally:
            events.unpersist()

    def _unknown(self, events: DataFrame) -> DataFrame:
        """Those that are not in the table, each once: where it stood first.

        An event with the id of another one is there, too: `is_another` says so.
        """
        # A newer version may tell more of an event when its batch runs again, but not another time or group.
        what = F.struct("at", "group_id", "event")
        firsts = events.groupBy("event_id").agg(
            F.min_by(F.struct("*"), F.struct("log_offset")).alias("it"),
            F.min(what).alias("least"),
            F.max(what).alias("most"),
        )
        events = firsts.select("it.*", F.expr("least <> most").alias("differs"))
        known = self._read(EVENTS).where(_is_in("day", _days(events)))
        known = known.select("event_id", what.alias("known"))
        is_new, is_another = F.col("known").isNull(), F.col("known") != what
        return (
            events.join(known, "event_id", "left")
            .where(is_new | is_another | F.col("differs"))
            .withColumn("is_another", F.col("differs") | F.coalesce(is_another, F.lit(False)))
            .drop("known", "differs")
        )

    def _rows(self, events: DataFrame, first_ms: int) -> DataFrame:
        """The rows that `events` make and change, by table, as JSON."""
        groups = F.broadcast(events.select("group_id").distinct())
        ids = F.broadcast(events.select("event_id"))
        first, *others = (self._lasting(table, groups, ids, first_ms) for table in _SPANS)
        before = reduce(DataFrame.unionByName, others, first)
        events = events.select("group_id", F.unix_millis("at").alias("at_ms"), "log_offset", "body")
        return (
            events.groupBy("group_id")
            .cogroup(before.groupBy("group_id"))
            .applyInPandas(_rows_of_group, _ROWS)
        )

    def _lasting(self, table: Table, groups: DataFrame, ids: DataFrame, first_ms: int) -> DataFrame:
        """The spans of these groups that have not ended, as if this batch had never been tried before.

        `ids`: of the events of the batch, of which the first was at `first_ms`.
        """
        ended, first = F.col("event_id").isNotNull(), F.timestamp_millis(F.lit(first_ms))
        spans = self._read(table)
        ending = [name for name in spans.columns if name in _ENDING]
        return (
            spans.where(F.col("until").isNull() | (F.col("until") >= first))
            .join(groups, "group_id", "left_semi")
            .join(ids.withColumnRenamed("event_id", "begun_by"), "begun_by", "left_anti")
            .join(ids, F.col("ended_by") == F.col("event_id"), "left")
            .where(F.col("until").isNull() | ended)
            .withColumns({name: F.when(~ended, F.col(name)) for name in ending})
            .select("group_id", F.lit(table.name).alias("table"), F.to_json(F.struct("*")).alias("row"))
        )

    def _merge_rows(self, rows: DataFrame) -> dict[str, int]:
        written = {row.table for row in rows.select("table").distinct().collect()}

        def merge(table: Table) -> tuple[str, int]:
            parsed = F.from_json("row", table.columns).alias("it")
            found = rows.where(F.col("table") == table.name).select(parsed).select("it.*")
            return table.name, self._merge(table, found.withColumn("day", F.to_date(table.begin)))

        # Most of a merge's time is Delta's own bookkeeping, which leaves the executors idle.
        with ThreadPoolExecutor(len(TABLES)) as threads:
            return dict(threads.map(merge, (table for table in TABLES if table.name in written)))

    def _merge(self, table: Table, rows: DataFrame) -> int:
        """Return how many rows were added or changed."""
        columns: dict[str, str | Column] = {name: F.col(f"new.{name}") for name in rows.columns}
        same = [F.col(f"old.{name}").eqNullSafe(F.col(f"new.{name}")) for name in (*table.key, "day")]
        # Also the days as constants, because Delta skips files by them.
        condition = _is_in("old.day", _days(rows))
        for each in same:
            condition &= each
        merge = DeltaTable.forPath(self._spark, f"{self._path}/{table.name}").alias("old")
        merging = merge.merge(rows.alias("new"), condition).whenNotMatchedInsert(values=columns)
        if table.is_of_spans:
            merging = merging.whenMatchedUpdate(set=columns)
        (done,) = merging.execute().collect()
        return int(done.num_affected_rows)

    def _read(self, table: Table) -> DataFrame:
        return self._spark.read.format("delta").load(f"{self._path}/{table.name}")


def _parsed(records: DataFrame) -> DataFrame:
    # None of what is no text. On their way to Python texts have to be UTF-8.
    body = F.try_validate_utf8(F.col("value").cast("string"))
    return (
        records.select(
            F.from_json(body, _ENVELOPE).alias("it"),
            body.alias("body"),
            F.col("partition").alias("log_partition"),
            F.col("offset").alias("log_offset"),
        )
        .select("it.*", "body", "log_partition", "log_offset")
        # Nobody else's record may end the query, again and again.
        .withColumn("at", F.timestamp_millis(F.when(F.col("at_ms").between(0, MOST_MS), F.col("at_ms"))))
        .drop("at_ms")
        .withColumn("day", F.to_date("at"))
        .where("event_id IS NOT NULL AND at IS NOT NULL AND group_id IS NOT NULL")
    )


def _summed_up(events: DataFrame) -> tuple[int | None, int | None, str | None]:
    """The times of the first and of the newest event, in ms, and an id that two events have; or None."""
    (row,) = events.agg(
        F.unix_millis(F.min("at")),
        F.unix_millis(F.max("at")),
        F.min(F.when(F.col("is_another"), F.col("event_id"))),
    ).collect()
    first_ms, newest_ms, twice = row
    return first_ms, newest_ms, twice


def _days(rows: DataFrame) -> list[Any]:
    return [row.day for row in rows.select("day").distinct().collect()]


def _is_in(column: str, days: Sequence[Any]) -> Column:
    """Whether the day is one of these. The day of what began before the history did is none."""
    known = [day for day in days if day is not None]
    found = F.col(column).isin(known)
    return found | F.col(column).isNull() if len(known) < len(days) else found


# -- on the executors ------------------------------------------------------------------------------------


def _rows_of_group(events: pd.DataFrame, before: pd.DataFrame) -> pd.DataFrame:
    """The rows of one group: those that `events` make, and of those `before` the ones that they end."""
    events = events.sort_values(["at_ms", "log_offset"])
    told = zip(events["log_offset"].tolist(), map(read_event, events["body"]), strict=True)
    spans = Spans(*(_decoded(before, table) for table in (_MEMBERSHIP, _ASSIGNMENTS, _WAITS)))
    rows = fold(((log_offset, event) for log_offset, event in told if event is not None), spans)
    encoded = [(table_of(row).name, msgspec.json.encode(row).decode()) for row in rows]
    return pd.DataFrame(encoded, columns=["table", "row"], dtype=object)


def _decoded(before: pd.DataFrame, table: Table) -> Iterator[Any]:
    decoder = msgspec.json.Decoder(table.row)
    for name, encoded in zip(before["table"], before["row"], strict=True):
        if name == table.name:
            yield decoder.decode(encoded)
