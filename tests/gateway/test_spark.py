"""Spark's own source and sink for Kafka, with the gateway as their bootstrap server."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tests.gateway.clients import groups_tool
from tests.gateway.conftest import Running
from tests.patience import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = [pytest.mark.spark, pytest.mark.verify]

TOPIC, COPY = "spark-orders", "spark-copies"


def fill(address: str, numbers: range) -> None:
    with closing(KafkaProducer(bootstrap_servers=address, acks="all")) as producer:
        for number in numbers:
            producer.send(TOPIC, b"%d" % number, partition=number % 4)
        producer.flush()


def test_a_stream_copies_each_record_once_over_restarts(
    running: Running, spark: SparkSession, tmp_path: Path
) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=running.gateway)) as admin:
        admin.create_topics(
            [NewTopic(name, num_partitions=4, replication_factor=1) for name in (TOPIC, COPY)]
        )
    at = {"kafka.bootstrap.servers": running.gateway}

    def copy(**options: str) -> DataStreamWriter:
        source = spark.readStream.format("kafka").options(**at, startingOffsets="earliest", **options).load()
        return source.writeStream.format("kafka").options(**at, topic=COPY, checkpointLocation=str(tmp_path))

    def copied() -> list[int]:
        found = spark.read.format("kafka").options(**at, subscribe=COPY).load()
        return sorted(int(row.value) for row in found.collect())

    fill(running.gateway, range(40))
    copy(subscribe=TOPIC).trigger(availableNow=True).start().awaitTermination()
    assert copied() == list(range(40))

    fill(running.gateway, range(40, 80))
    copy(subscribePattern="spark-ord.*", minPartitions="8").trigger(
        availableNow=True
    ).start().awaitTermination()
    assert copied() == list(range(80))

    # So it asks for offsets as a member of a group, and not by the admin client.
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    query = copy(subscribe=TOPIC, **{"kafka.group.id": "spark"}).start()
    try:
        fill(running.gateway, range(80, 120))
        wait_for(lambda: query.exception() or copied() == list(range(120)), said=query.exception)
        told = groups_tool(running.gateway, "--describe", "--group", "spark", "--members")
        assert re.search(r"^spark +consumer-spark-\S+ .* 4 *$", told, re.MULTILINE), told
    finally:
        query.stop()
        spark.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")
