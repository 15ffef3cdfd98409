"""The writer of the table of lag, which makes rows of a batch of measurements, each once.

Of the measurements of a group only the first in each span of time becomes rows. A batch may run twice, and
the query's checkpoint may be lost. So nothing is appended: rows are merged by group, topic and span, and a
span that has a row keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from group_coordinator.client.lag_log import MISSED, SLACK_MS, STATUSES
from group_coordinator.coordinator_state.foreign import MOST_MS
from group_coordinator.history.tables import LAG

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_MEASUREMENT = (
    "group_id STRING, measured_timestamp_ms BIGINT, interval_ms BIGINT, trend STRING, clear_in_ms BIGINT, "
    "topics ARRAY<STRUCT<name: STRING, partitions: ARRAY<STRUCT<committed_offset: BIGINT, "
    "log_end_offset: BIGINT, age_ms: BIGINT, error_ms: BIGINT, at_least: BOOLEAN, status: STRING, "
    "log_start_offset: BIGINT>>>>"
)
_STATUSES = ", ".join(f"'{each}'" for each in STATUSES)
_OLDEST = "array_max(transform(its.partitions, p -> struct(p.age_ms, p.error_ms)))"
# Offsets of anybody's may be too far apart to be counted.
_SUM = (
    "aggregate(its.partitions, 0L, (sum, p) -> "
    "try_add(sum, greatest(try_subtract(p.{}, p.committed_offset), 0L)))"
)
_SUMMED_UP = {
    "records": _SUM.format("log_end_offset"),
    "lost_records": _SUM.format("log_start_offset"),
    "age_ms": f"{_OLDEST}.age_ms",
    "error_ms": f"{_OLDEST}.error_ms",
    "at_least": "exists(its.partitions, p -> p.at_least)",
    "status": "array_max(transform(its.partitions, p -> "
    f"struct(array_position(array({_STATUSES}), p.status) AS place, p.status AS status))).status",
}
"""Of the partitions of a topic: the oldest record, and the worst status."""


class LagWriter:
    """Writes batches of records of the topic of lag into the table under `path`, which must be there.

    `interval_ms`: the length of the spans of time. So the table has a row for each of them at most, for each
    group and topic: with one minute, 1,440 a day.
    """

    def __init__(self, spark: SparkSession, path: str, interval_ms: int) -> None:
        self._spark, self._location, self._interval_ms = spark, f"{path}/{LAG.name}", interval_ms

    def write(self, records: DataFrame) -> int:
        """Take in a batch; returns how many rows were added."""
        rows = self._rows(records).persist()
        try:
            (found,) = rows.agg(
                F.unix_millis(F.min("at")).alias("first_ms"), F.unix_millis(F.max("at")).alias("last_ms")
            ).collect()
            if found.first_ms is None:
                return 0
            # Delta skips files by constants: by the day, and by the times in each file.
            since = F.timestamp_millis(F.lit(found.first_ms - self._interval_ms))
            until = F.timestamp_millis(F.lit(found.last_ms + self._interval_ms))
            condition = F.col("old.at").between(since, until)
            condition &= F.col("old.day").between(F.to_date(since), F.to_date(until))
            for name in ("group_id", "topic"):
                condition &= F.col(f"old.{name}") == F.col(f"new.{name}")
            condition &= self._span("old.at") == self._span("new.at")
            merge = DeltaTable.forPath(self._spark, self._location).alias("old")
            merging = merge.merge(rows.alias("new"), condition).whenNotMatchedInsertAll()
            (done,) = merging.execute().collect()
            return int(done.num_affected_rows)
        finally:
            rows.unpersist()

    def _span(self, at: str) -> Column:
        return F.floor(F.unix_millis(at) / self._interval_ms)

    def _rows(self, records: DataFrame) -> DataFrame:
        measurements = (
            records.select(F.from_json(F.col("value").cast("string"), _MEASUREMENT).alias("it"))
            .select("it.*")
            .where("group_id IS NOT NULL")
            # Nobody else's record may end the query, again and again.
            .where(F.col("measured_timestamp_ms").between(0, MOST_MS))
            .where(F.col("interval_ms").between(0, MOST_MS))
            .withColumn("at", F.timestamp_millis("measured_timestamp_ms"))
        )
        firsts = (
            measurements.groupBy("group_id", self._span("at").alias("span"))
            .agg(F.min_by(F.struct("*"), "at").alias("it"))
            .select("it.*", F.explode("it.topics").alias("its"))
        )
        return firsts.select(
            "group_id",
            "at",
            F.timestamp_millis(
                F.col("measured_timestamp_ms")
                + F.col("interval_ms") * MISSED
                + F.lit(SLACK_MS + self._interval_ms)
            ).alias("until"),
            F.col("its.name").alias("topic"),
            F.size("its.partitions").alias("partitions"),
            *(F.expr(what).alias(name) for name, what in _SUMMED_UP.items()),
            "trend",
            "clear_in_ms",
            F.to_date("at").alias("day"),
        )
