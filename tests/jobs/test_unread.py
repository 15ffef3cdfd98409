"""How far a job is behind, by what Kafka says and by where Spark's batches have ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer
from prometheus_client import CollectorRegistry

from group_coordinator.jobs.batches import BatchWatch, Offsets
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.unread import UnreadWatch
from tests.patience import PATIENCE_S, wait_for
from tests.streaming.registry import create_topic, samples

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NAME = "the-query-under-test"
RECORDS, SECONDS = ("group_coordinator_input_lag_records",), ("group_coordinator_input_lag_seconds",)

pytestmark = pytest.mark.spark


def fill(bootstrap_servers: str, partitions: int, **config: str) -> str:
    """A topic with 50 records in each partition."""
    topic = create_topic(bootstrap_servers, partitions=partitions, **config)
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for number in range(50 * partitions):
        producer.send(topic, b"x", partition=number % partitions)
    producer.close()
    return topic


def test_what_no_batch_has_read(bootstrap_servers: str) -> None:
    topic = fill(bootstrap_servers, 2)
    filled_at = time.time()
    registry = CollectorRegistry()
    read: Offsets = {}
    with UnreadWatch(topic, python_client_config(bootstrap_servers, {}), lambda: read, look_s=0.05) as watch:
        registry.register(watch)
        assert not samples(registry)

        read = {topic: {0: 20}}  # the other partition is new
        wait_for(lambda: samples(registry).get(RECORDS) == 80)
        first_s = samples(registry)[SECONDS]
        assert time.time() - filled_at <= first_s < PATIENCE_S
        # Again and again, although the client has been told not to read on.
        wait_for(lambda: samples(registry)[SECONDS] > first_s + 0.5)

        read = {topic: {0: 50, 1: 50}}
        wait_for(lambda: samples(registry)[RECORDS] == 0)
        assert samples(registry)[SECONDS] == 0


def test_of_a_query_that_leaves_records_unread(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = fill(bootstrap_servers, 1)
    registry, batches = CollectorRegistry(), BatchWatch(NAME)
    spark.streams.addListener(batches)
    source: dict[str, Any] = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 30,
    }
    with UnreadWatch(topic, python_client_config(bootstrap_servers, {}), lambda: batches.read, 0.05) as watch:
        registry.register(watch)
        query = (
            spark.readStream.format("kafka")
            .options(**source)
            .load()
            .writeStream.queryName(NAME)
            .format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="1 hour")  # one batch: it leaves 20 of 50 unread
            .start()
        )
        try:
            wait_for(lambda: samples(registry).get(RECORDS) == 20)
        finally:
            query.stop()
            spark.streams.removeListener(batches)
    assert (batches.read, batches.caught_up) == ({topic: {0: 30}}, {})
