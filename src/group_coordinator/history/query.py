"""A query of the history: from a topic to the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.jobs.kafka_config import kafka_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.history.settings import HistorySettings


def start_query(
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
    """Start it: `take` is given each batch of the topic, of `most` records at most.

    `checkpoint`: where it keeps its place, below the history's path. `interval_ms`: the time between the
    starts of two batches; None: it ends when it has read what there is now.
    """
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
