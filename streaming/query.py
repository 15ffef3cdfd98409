"""The stream, from the request topic to the output topics.

    coordinator.requests ─┐                                    ┌─► coordinator.responses
                          ├─► one source ─► stateful function ─┼─► coordinator.groups
    coordinator.clock   ──┘   keyed by group, event time       ├─► coordinator.offsets
                                                               ├─► coordinator.events
                                                               └─► coordinator.rejected

Requests are of the time at which a broker has appended them. Only the clock's ticks carry event time. Spark
drops rows that are late by the watermark, and it must never drop a request of a slow partition. A row whose
event time is null is never late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.state import GroupStateTimeout

from group_coordinator.coordinator_state.log import PROBE
from group_coordinator.jobs.kafka_config import kafka_options
from group_coordinator.streaming.function import INPUT_COLUMNS, StatefulFunction
from group_coordinator.streaming.group_function import OUTPUT_SCHEMA, STATE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from group_coordinator.coordinator_state.step import StepResult
    from group_coordinator.jobs.settings import JobSettings
    from group_coordinator.streaming.function import FunctionArguments
    from group_coordinator.streaming.settings import CoordinatorSettings

QUERY_NAME = "group-coordinator"
_ANSWER_MS = 10_000
"""`request.timeout.ms` of Kafka's clients in Spark. They ask another broker then, if any can answer."""
_BUFFER_BYTES = 32 * 1024 * 1024
"""`buffer.memory` of Kafka's producer, unless records are larger than usual."""


def start_query(
    spark: SparkSession,
    settings: CoordinatorSettings,
    arguments: FunctionArguments,
    count: Callable[[StepResult], None],
    *,
    catches_up: bool = False,
) -> StreamingQuery:
    """Start the one query that is the coordinator.

    A batch that is planned and not committed comes first. `catches_up`: the query ends with what the log has
    when it begins to read.
    """
    rows = per_group(read_log(spark, settings), StatefulFunction(arguments, count))
    stream = writing(rows, settings, QUERY_NAME, settings.checkpoint)
    if catches_up:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{settings.trigger_interval_ms} milliseconds")
    return stream.start()


def writing(rows: DataFrame, settings: JobSettings, name: str, checkpoint: str) -> DataStreamWriter:
    """Return the writer that starts a query of that name, which writes `rows` to Kafka."""
    return (
        rows.writeStream.queryName(name)
        .format("kafka")
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .option("kafka.acks", "all")
        .option("kafka.request.timeout.ms", _ANSWER_MS)
        .option("kafka.max.request.size", settings.group.max_record_bytes)
        # A record that is larger than the producer's buffer would end the query.
        .option("kafka.buffer.memory", max(2 * settings.group.max_record_bytes, _BUFFER_BYTES))
        .options(**kafka_options(settings))
    )


def read_log(spark: SparkSession, settings: CoordinatorSettings) -> DataFrame:
    """Requests and ticks as one stream, as `requests_of` returns it."""
    topics = settings.topics_requests, settings.topics_clock
    return requests_of(read_topics(spark, settings, *topics, most=settings.max_batch_records), settings)


def requests_of(log: DataFrame, settings: CoordinatorSettings) -> DataFrame:
    """Take out of the rows of Spark's source ticks, once they moved the watermark, and probes.

    Spark makes the plan again for each batch. Each node of it, and of an expression, takes its time there.
    """
    is_tick = F.col("topic") == settings.topics_clock
    is_probe = F.col("key").isNull() & (F.col("value") == F.lit(PROBE))
    requests = (
        log.select(
            "key",
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("timestamp_ms"),
            "value",
            # A probe is like a tick that lets no time pass.
            F.when(is_tick | is_probe, tick_time()).alias("clock"),
        )
        .withWatermark("clock", f"{settings.clock_slack_ms} milliseconds")
        # On this very column, or Spark pushes the filter below the watermark and no tick ever reaches it.
        .filter(F.col("clock").isNull())
    )
    # With one state partition the task that has read the requests can also decide them. Nothing is shuffled,
    # and a batch is one stage instead of two.
    return requests.coalesce(1) if settings.state_partitions == 1 else requests


def tick_time() -> Column:
    """The time that a tick lets come, of the column `value` of its record: the field `time_ms` of `Tick`."""
    # Spark counts in microseconds. A number of more digits, which no coordinator writes, would end the query.
    time_ms = F.get_json_object(F.col("value").cast("string"), "$.time_ms").try_cast("decimal(15, 0)")
    # Without the field: not null, which would make it a request, but long ago, which moves nothing.
    return F.timestamp_millis(F.coalesce(time_ms.cast("long"), F.lit(0)))


def read_topics(
    spark: SparkSession,
    settings: CoordinatorSettings,
    *topics: str,
    most: int | None = None,
    begin: str | None = None,
) -> DataFrame:
    """The records of the topics as they come, with the columns of Spark's source.

    `most`: how many a batch may have, of all partitions together, in proportion to what each has. `begin`:
    where a new checkpoint begins, as Spark's `startingOffsets`; None: where the settings say.
    """
    source = (
        spark.readStream.format("kafka")
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", begin or settings.starting_offsets)
        # Records that have passed their retention while the coordinator was down are gone either way. Clients
        # repeat what is not answered. So it would only make the outage longer to refuse to start.
        .option("failOnDataLoss", "false")
        # When a task has its records, its consumer has already asked for more. The next request waits until
        # that is answered, in each task of each batch, for 500 ms by default.
        .option("kafka.fetch.max.wait.ms", "1")
        .option("kafka.request.timeout.ms", _ANSWER_MS)
        .options(**kafka_options(settings))
    )
    return (source if most is None else source.option("maxOffsetsPerTrigger", most)).load()


def per_group(log: DataFrame, function: Callable[..., Iterator[pd.DataFrame]]) -> DataFrame:
    """The stateful operator, which makes the state in a checkpoint what it is; `function` is run in it."""
    return (
        log.select("key", *INPUT_COLUMNS, "clock")
        .groupBy("key")
        .applyInPandasWithState(
            function,
            OUTPUT_SCHEMA,
            STATE_SCHEMA,
            "update",
            GroupStateTimeout.EventTimeTimeout,
        )
    )
