"""The stream, from the brokers' log of groups to the topics of what is seen.

    __consumer_offsets ─► source ─► stateful function, keyed by group ─┬─► brokers.groups
                                                                       ├─► brokers.offsets
                                                                       └─► brokers.events

Spark's source leaves internal topics out without a word. With `USE_CONSUMER` it asks for offsets with a
consumer instead of an admin client, and reads them all. That was tried with a broker that hung for 40 s, and
with kills: the query goes on. A copy of the records into another topic would be one more thing to run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.state import GroupStateTimeout

from group_coordinator.coordinator_state.topics import BROKERS_LOG
from group_coordinator.jobs.kafka_config import kafka_options
from group_coordinator.observe.function import INPUT_COLUMNS
from group_coordinator.streaming.group_function import OUTPUT_SCHEMA, STATE_SCHEMA
from group_coordinator.streaming.query import writing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.observe.function import ObserveFunction
    from group_coordinator.observe.settings import ObserveSettings

QUERY_NAME = "group-coordinator-observe"
USE_CONSUMER = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
CONSUMER_PREFIX = "group-coordinator-observe"
"""The beginning of the group ids of Spark's consumers. They join no group, but need Read on it to be told
where the topic ends."""
_LARGEST_SIMPLE_KIND = 1
"""Keys of commits begin with 0 or 1."""


def start_query(
    spark: SparkSession, settings: ObserveSettings, partitions: int, function: ObserveFunction
) -> StreamingQuery:
    """Start the query. `partitions`: how many `__consumer_offsets` has."""
    log = read_log(spark, settings, partitions)
    if settings.observe_state_partitions == 1:
        # The task that has read the records can also take them in. Nothing is shuffled.
        log = log.coalesce(1)
    rows = log.groupBy("key").applyInPandasWithState(
        function,
        OUTPUT_SCHEMA,
        STATE_SCHEMA,
        "update",
        GroupStateTimeout.ProcessingTimeTimeout,
    )
    stream = writing(rows, settings, QUERY_NAME, settings.observe_checkpoint)
    return stream.trigger(processingTime=f"{settings.observe_trigger_interval_ms} milliseconds").start()


def read_log(spark: SparkSession, settings: ObserveSettings, partitions: int) -> DataFrame:
    """Read the records of so many partitions, `by_group`."""
    log = (
        spark.readStream.format("kafka")
        # To subscribe would be to join a group at the brokers.
        .option("assign", json.dumps({BROKERS_LOG: list(range(partitions))}))
        .option("startingOffsets", "earliest")
        # The topic is compacted, and what compaction has taken is not there for anybody.
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", settings.observe_max_records)
        .option("groupIdPrefix", CONSUMER_PREFIX)
        # Offsets of a transaction count once it is committed.
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", "1")
        .options(**kafka_options(settings))
        .load()
    )
    return by_group(log, with_commits=settings.observe_offsets)


def by_group(log: DataFrame, *, with_commits: bool) -> DataFrame:
    """The records as Kafka has them, with the id of the group that each is of as bytes (`key`).

    It stands at the same place in the keys of all kinds. `with_commits`: whether commits are among them.
    """
    if not with_commits:
        log = log.filter(_number("key", 1) > _LARGEST_SIMPLE_KIND)
    group_id = F.substring("key", 5, _number("key", 3))
    return log.select(
        group_id.alias("key"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
        F.col("key").alias("record_key"),
        "value",
    ).select("key", *INPUT_COLUMNS)


def _number(column: str, at: int) -> Column:
    """The number of two bytes there."""
    return F.conv(F.hex(F.substring(column, at, 2)), 16, 10).cast("int")
