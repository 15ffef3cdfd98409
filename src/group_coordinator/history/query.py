"""The queries: from the topics of events and of lag to the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.history.identity import CHECKPOINT, LAG_CHECKPOINT
from group_coordinator.jobs.kafka_config import kafka_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.history.settings import HistorySettings

__all__ = ["LAG_QUERY_NAME", "QUERY_NAME", "start_lag_query", "start_query"]

QUERY_NAME = "group-coordinator-history"
LAG_QUERY_NAME = "group-coordinator-history-lag"
_MOST_MEASUREMENTS = 20_000
"""Of one batch: each may tell of many partitions."""


def start_query(
    spark: SparkSession, settings: HistorySettings, take: Callable[[DataFrame, int], None], *, once: bool
) -> StreamingQuery:
    """Start it: `take` is given each batch. `once`: it ends when it has read what there is now."""
    return _start(
        spark,
        settings,
        take,
        QUERY_NAME,
        topic=settings.topics_events,
        checkpoint=CHECKPOINT,
        most=settings.history_max_events,
        interval_ms=None if once else settings.history_interval_ms,
    )


def start_lag_query(
    spark: SparkSession, settings: HistorySettings, take: Callable[[DataFrame, int], None], *, once: bool
) -> StreamingQuery:
    """Start the query from the topic of lag to its table, in the same way."""
    return _start(
        spark,
        settings,
        take,
        LAG_QUERY_NAME,
        topic=settings.topics_lag,
        checkpoint=LAG_CHECKPOINT,
        most=_MOST_MEASUREMENTS,
        interval_ms=None if once else max(settings.history_interval_ms, settings.history_lag_interval_ms),
    )


def _start(
    spark: SparkSession,
    settings: HistorySettings,
    take: Callable[[DataFrame, int], None],
    name: str,
    *,
    topic: str,
    checkpoint: str,
    most: int,
    interval_ms: int | None,
) -> StreamingQuery:
    log = (
        spark.readStream.format("kafka")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # Records that have passed their retention while nobody read are gone either way.
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", most)
        .options(**kafka_options(settings))
        .load()
    )
    stream = log.writeStream.queryName(name).foreachBatch(take)
    stream = stream.option("checkpointLocation", f"{settings.history_path}/{checkpoint}")
    if interval_ms is None:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{interval_ms} milliseconds")
    return stream.start()
