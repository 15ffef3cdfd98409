"""The tables, read where they lie: without Spark and its seconds of start.

The `deltalake` package knows Delta's format and runs SQL on it (Apache DataFusion). Spark's SQL reads the
same tables, and `questions` are written so that both understand them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from group_coordinator.history.errors import HistoryError
from group_coordinator.history.places import place_of
from group_coordinator.history.questions import About, Period, fleet, question_called, text, time
from group_coordinator.history.rows import GenerationMember, OffsetChange, Row, Transition
from group_coordinator.history.signs import BEFORE, signs_of_life
from group_coordinator.history.story import LagPoint, Story
from group_coordinator.history.tables import ALL_TABLES, TABLES, Table
from group_coordinator.history.timeline.explain import Explainer, Rebalance
from group_coordinator.history.timeline.sentence import Sentence

AnyRow = TypeVar("AnyRow", bound=Row)

MOST_ROWS = 1_000_000
"""Rows of an answer, unless its caller allows more. A row takes some hundred bytes of memory."""
_LONGEST = timedelta(days=1)
"""A rebalance that is explained is followed for as long."""
_MOST_LAG_POINTS = 1_000
_MOST_RESETS = 20_000
"""Offsets set or deleted by hand in a story, the newest: as many as a group has at most by default."""


class HistoryReader:
    """The tables under `path`, as they are when the first question is asked; or as they were at `as_of`.

    `path`: a directory or an object store's URI, as in the setting `history.path`. Methods raise
    `HistoryError` if something cannot be read. Credentials of object stores come from the environment, in the
    names that their own tools have (AWS_ACCESS_KEY_ID, AZURE_STORAGE_ACCOUNT_NAME, ...). All times that come
    and go have a zone.
    """

    def __init__(self, path: str, as_of: datetime | None = None) -> None:
        self._path = path
        self._as_of = as_of if as_of is None else _with_zone(as_of)

    @cached_property
    def _builder(self) -> QueryBuilder:
        """Runs queries over the tables; for each of them once is enough."""
        builder = QueryBuilder()
        for table in ALL_TABLES:
            self._register(builder, table)
        return builder

    def _open(self, table_: Table) -> DeltaTable | None:
        """The table; None if a writer of a version before has not made it."""
        name = table_.name
        location = f"{self._path}/{name}"
        try:
            table = DeltaTable(f"{place_of(self._path)}/{name}")
            if self._as_of is not None:
                table.load_as_version(self._as_of)
        except TableNotFoundError:
            if table_.is_added:
                return None
            raise HistoryError(
                f"there is no table {location}: is it where `group-coordinator write-history` writes?"
            ) from None
        except (DeltaError, OSError) as error:
            when = "" if self._as_of is None else f" as of {self._as_of.isoformat()}"
            raise HistoryError(f"cannot read {location}{when}: {_first_line(error)}") from None
        return table

    def query(self, sql: str, *, most_rows: int = MOST_ROWS) -> pa.Table:
        """Return the answer to a SELECT over the tables, which are called by their names.

        The SQL is Apache DataFusion's. Text comes as `string`, times as `timestamp[us, tz=UTC]`. Raises
        `HistoryError` if the query fails, or if the answer has more than `most_rows`: nothing is left out.
        """
        batches, rows = [], 0
        try:
            answer = pa.RecordBatchReader.from_stream(self._builder.execute(sql))
            for batch in answer:
                rows += batch.num_rows
                if rows > most_rows:
                    raise HistoryError(
                        f"the answer has more than {most_rows:,} rows: ask for a shorter time "
                        "(a program may also allow more, with most_rows)"
                    )
                batches.append(batch)
        except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
            raise HistoryError(f"the query failed: {_first_line(error)}: {' '.join(sql.split())}") from None
        return _without_views(pa.Table.from_batches(batches, answer.schema))

    def ask(
        self,
        question: str,
        group_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        at: datetime | None = None,
        member: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> pa.Table:
        """Return what `group-coordinator history GROUP --QUESTION` shows: its arguments are the options.

        It is about the time from `since` (24 hours ago by default) to `until` (now, or `as_of`), or about
        the moment `at`. Some questions can be narrowed to a `member`, a `topic` or a `partition`. Raises
        `HistoryError` also if there is no such question, or if it cannot be narrowed so.
        """
        period = self._period(since, until, at)
        about = About(group_id, period, member, topic, partition)
        asked = question_called(question)
        if refused := asked.refuses(about):
            raise HistoryError(f"the question {question!r} does not take {refused!r}")
        return self.query(asked.sql(about))

    def fleet(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        cause: str | None = None,
        member: str | None = None,
        topic: str | None = None,
    ) -> pa.Table:
        """Return a row for each group that there was in this time, the worst first.

        `cause`, `member` and `topic`: only groups that had such a rebalance, such a member, or a member that
        owned something of that topic.
        """
        period = self._period(since, until, None)
        return self.query(fleet(period, cause=cause, member=member, topic=topic))

    def _period(self, since: datetime | None, until: datetime | None, at: datetime | None) -> Period:
        if at is not None and (since or until):
            raise HistoryError("ask of a moment (at) or of a period (since, until), not of both")
        times = [None if each is None else _with_zone(each) for each in (at or since, at or until)]
        return Period.ending(*times, now=self._as_of or datetime.now(UTC))

    def _register(self, builder: QueryBuilder, table: Table) -> None:
        """Make a table known. A column that the writer has not added to it yet is null."""
        name, stored = table.name, self._open(table)
        there = set() if stored is None else {field.name for field in stored.schema().fields}
        types = table.types.items()
        missing = ", ".join(
            f"CAST(NULL AS {kind}) AS {column}" for column, kind in types if column not in there
        )
        if stored is None:
            view = f"SELECT {missing} WHERE false"
        elif missing:
            builder.register(f"{name}_there", stored)
            view = f"SELECT *, {missing} FROM {name}_there"
        else:
            builder.register(name, stored)
            return
        builder.execute(f"CREATE VIEW {name} AS {view}").read_all()

    def groups(self) -> list[str]:
        """The ids of all groups that the history knows."""
        rows = self.query("SELECT DISTINCT group_id FROM transitions ORDER BY group_id").to_pylist()
        return [row["group_id"] for row in rows]

    def reaches_to(self) -> datetime | None:
        """The time of the newest event in the tables; None if there is none. Later ones are not known."""
        day = self.query("SELECT max(day) AS day FROM events").to_pylist()[0]["day"]
        if day is None:
            return None
        # Of one day, by which the table is partitioned: the others need not be read.
        found = self.query(f"SELECT max(at) AS at FROM events WHERE day = DATE '{day}'")
        newest: datetime = found.to_pylist()[0]["at"]
        return newest

    def ends(self) -> dict[int, int]:
        """The offset of the newest event of each partition of the topic that the tables are made of."""
        found = self.query("SELECT log_partition, max(log_offset) AS log_offset FROM events GROUP BY 1")
        return {row["log_partition"]: row["log_offset"] for row in found.to_pylist()}

    def first_events(self, group_ids: Collection[str]) -> dict[str, datetime]:
        """The time of the first event of each of these groups that the history knows."""
        named = ", ".join(map(text, group_ids)) or "NULL"
        rows = self.query(
            f"SELECT group_id, min(at) AS at FROM events WHERE group_id IN ({named}) GROUP BY group_id"
        )
        return {row["group_id"]: row["at"] for row in rows.to_pylist()}

    def events_since(self, begin: datetime) -> set[str]:
        """The ids of all events from this time on."""
        day = begin.astimezone(UTC).date()
        rows = self.query(f"SELECT event_id FROM events WHERE day >= DATE '{day}' AND at >= {time(begin)}")
        return set(rows["event_id"].to_pylist())

    def newest_offsets(
        self, until: Mapping[str, tuple[datetime, int]], where: str = "true"
    ) -> Iterator[OffsetChange]:
        """Yield of each partition the newest change before its group's place in `until`: time and offset.

        `where`: the changes that count, in SQL.
        """
        if not until:
            return
        bounds = ", ".join(f"({text(each)}, {time(at)}, {offset})" for each, (at, offset) in until.items())
        sql = f"""\
WITH bounds(id, until, place) AS (VALUES {bounds}),
ranked AS (
  SELECT offsets.*,
    row_number() OVER (PARTITION BY group_id, topic, partition ORDER BY at DESC, log_offset DESC) AS rank
  FROM offsets JOIN bounds ON group_id = id
  WHERE (at < until OR at = until AND log_offset < place) AND {where}
)
SELECT * FROM ranked WHERE rank = 1"""
        yield from _rows(OffsetChange, self.query(sql))

    def story(self, group_id: str, since: datetime, until: datetime) -> Story:
        """All that happened to a group from `since` to `until`, and what lasted when that began.

        The last move and the last generation before `since` are among it: in which state the group was, and
        who led it.
        """
        period, rows = Period(since, until), list[Row]()
        for table in TABLES:
            if table.row is None:
                continue
            most = ""
            if table.row is OffsetChange:
                # Most offsets are committed by members, which no timeline shows.
                condition = f"change <> 'expired' AND coalesce(member_id, '') = '' AND {period.has('at')}"
                most = f" ORDER BY at DESC, log_offset DESC LIMIT {_MOST_RESETS}"
            elif table.is_of_spans:
                condition = period.meets("since", "until")
            elif table.row in (Transition, GenerationMember):
                condition = period._replace(since=self._last(table, group_id, since) or since).has("at")
            else:
                condition = period.has("at")
            sql = f"SELECT * FROM {table.name} WHERE group_id = {text(group_id)} AND {condition}{most}"
            rows += _rows(table.row, self.query(sql))
        story = Story.of_rows(group_id, rows)
        story.lag = self._lag(group_id, period)
        story.signs = signs_of_life(self.query, group_id, period, story.memberships)
        return story

    def explain(
        self,
        group_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        at: datetime | None = None,
    ) -> list[tuple[Rebalance, list[Sentence]]]:
        """Return the rebalances of a time in plain words, each sentence with its evidence.

        With `at` it is the rebalance of that moment, or the last one before. See `Explainer`.
        """
        period = self._period(since, until, at)
        if at is not None:
            last = self.query(question_called("rebalances").sql(About(group_id, period))).to_pylist()[:1]
            # A member that went in that very moment is no longer there after it.
            began = last[0]["began"] if last else at
            period = Period(began - timedelta(milliseconds=1), began + _LONGEST)
        explainer = Explainer(self.story(group_id, *period))
        found = [each for each in explainer.rebalances if (each.ended or period.until) >= period.since]
        return [(each, explainer.explain(each)) for each in (found[:1] if at is not None else found)]

    def near_misses(
        self,
        group_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        at: datetime | None = None,
    ) -> list[Sentence]:
        """Say of which members the coordinator heard when their session had nearly expired, the oldest first.

        With `at` it is the ten minutes before, and the minute that is meant.
        """
        period = self._period(since, until, at)
        if at is not None:
            period = Period(at - BEFORE, period.end_of_moment)
        return Explainer(self.story(group_id, *period)).late.near_misses(*period)

    def _lag(self, group_id: str, period: Period) -> list[LagPoint]:
        """The lag over time; of a long time the greatest of each part of it."""
        each_s = max(1, (period.until - period.since) // timedelta(seconds=1) // _MOST_LAG_POINTS)
        sql = f"""\
WITH measured AS (
  SELECT at, max(until) AS until, sum(records) AS records, max(age_ms) AS age_ms,
    bool_or(at_least) AS at_least
  FROM lag WHERE group_id = {text(group_id)} AND {period.has("at")} GROUP BY at
)
SELECT min(at) AS at, max(until) AS until, max(records) AS records, max(age_ms) AS age_ms,
  bool_or(at_least) AS at_least
FROM measured GROUP BY CAST(floor(extract(epoch FROM at) / {each_s}) AS BIGINT) ORDER BY at"""
        return [LagPoint(**row) for row in self.query(sql).to_pylist()]

    def _last(self, table: Table, group_id: str, before: datetime) -> datetime | None:
        where = f"group_id = {text(group_id)} AND at < {time(before)}"
        found = self.query(f"SELECT max(at) AS at FROM {table.name} WHERE {where}")
        last: datetime | None = found.to_pylist()[0]["at"]
        return last


def _rows(kind: type[AnyRow], table: pa.Table) -> Iterator[AnyRow]:
    for row in table.to_pylist():
        known: dict[str, Any] = {name: row[name] for name in kind.__struct_fields__ if name in row}
        yield msgspec.convert(known, kind)


def _with_zone(value: datetime) -> datetime:
    """The time itself. Raises `HistoryError` if it could be a time of any zone."""
    if value.tzinfo is None:
        raise HistoryError(f"{value.isoformat()} has no zone: give the time as datetime(..., tzinfo=UTC)")
    return value


def _without_views(table: pa.Table) -> pa.Table:
    """The table with text as `string`: Arrow does not sort or compare DataFusion's `string_view`."""
    fields = [it.with_type(pa.string()) if it.type == pa.string_view() else it for it in table.schema]
    return table.cast(pa.schema(fields))


def _first_line(error: Exception) -> str:
    # DataFusion's first line may be only the place in DataFusion.
    said = str(error).strip().replace("\ncaused by\n", ": ")
    return (said.splitlines() or [repr(error)])[0]
