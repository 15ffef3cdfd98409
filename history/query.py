"""The query: from the topic of events to the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.history.identity import CHECKPOINT
from group_coordinator.jobs.kafka_config import kafka_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.history.settings import HistorySettings

__all__ = ["QUERY_NAME", "start_query"]

QUERY_NAME = "group-coordinator-history"


def start_query(
    spark: SparkSession, settings: HistorySettings, take: Callable[[DataFrame, int], None], *, once: bool
) -> StreamingQuery:
    """Start it: `take` is given each batch. `once`: it ends when it has read what there is now."""
    log = (
        spark.readStream.format("kafka")
        .option("subscribe", settings.topics_events)
        .option("startingOffsets", "earliest")
        # Events that have passed their retention while nobody read are gone either way.
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", settings.history_max_events)
        .options(**kafka_options(settings))
        .load()
    )
    stream = log.writeStream.queryName(QUERY_NAME).foreachBatch(take)
    stream = stream.option("checkpointLocation", f"{settings.history_path}/{CHECKPOINT}")
    if once:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{settings.history_interval_ms} milliseconds")
    return stream.start()
