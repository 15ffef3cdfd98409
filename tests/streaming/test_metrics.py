from __future__ import annotations

import itertools
import json
import math
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql.streaming.listener import StreamingQueryListener

from streaming.kafka_config import python_client_config
from streaming.metrics import BatchMetrics, DecisionMetrics, GroupMetrics, serve_metrics
from streaming.settings import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEADLINE_S = 30
NAME = "the-query-under-test"

_numbers = itertools.count(1)

COUNTS = Counter(
    {
        ("requests", "join_group", ""): 5,
        ("requests", "heartbeat", ""): 7,
        ("responses", "join_group", "NONE"): 3,
        ("responses", "join_group", "MEMBER_ID_REQUIRED"): 2,
        ("responses", "unreadable", "INVALID_REQUEST"): 1,
        ("rejected", "", ""): 4,
        ("offsets", "committed", ""): 10,
        ("offsets", "deleted", ""): 11,
        ("offsets", "expired", ""): 12,
        ("events", "member_added", ""): 9,
        ("events", "member_removed", "left"): 1,
        ("events", "member_removed", "session_expired"): 2,
        ("events", "state_changed", "PreparingRebalance"): 6,
        ("events", "state_changed", "Stable"): 8,
    }
)


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """All samples by name and label values, without creation times."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.02)


# -- decisions ---------------------------------------------------------------------------------------


def test_decisions_from_counts() -> None:
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(lambda: COUNTS))

    assert samples(registry) == {
        ("group_coordinator_requests_total", "join_group"): 5,
        ("group_coordinator_requests_total", "heartbeat"): 7,
        ("group_coordinator_responses_total", "join_group", "NONE"): 3,
        ("group_coordinator_responses_total", "join_group", "MEMBER_ID_REQUIRED"): 2,
        ("group_coordinator_responses_total", "unreadable", "INVALID_REQUEST"): 1,
        ("group_coordinator_offsets_total", "committed"): 10,
        ("group_coordinator_offsets_total", "deleted"): 11,
        ("group_coordinator_offsets_total", "expired"): 12,
        ("group_coordinator_requests_rejected_total",): 4,
        ("group_coordinator_members_removed_total", "left"): 1,
        ("group_coordinator_members_removed_total", "session_expired"): 2,
        ("group_coordinator_state_changes_total", "PreparingRebalance"): 6,
        ("group_coordinator_state_changes_total", "Stable"): 8,
        ("group_coordinator_rebalances_total",): 6,
        ("group_coordinator_session_expirations_total",): 2,
    }


def test_figures_without_labels_are_there_from_the_start() -> None:
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(Counter))

    assert samples(registry) == {
        ("group_coordinator_requests_rejected_total",): 0,
        ("group_coordinator_rebalances_total",): 0,
        ("group_coordinator_session_expirations_total",): 0,
    }


def test_decisions_are_read_anew_each_time() -> None:
    counts = Counter({("rejected", "", ""): 1})
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(lambda: counts))
    before = samples(registry)
    counts["rejected", "", ""] += 1

    name = ("group_coordinator_requests_rejected_total",)
    assert (before[name], samples(registry)[name]) == (1, 2)


# -- batches -----------------------------------------------------------------------------------------


def test_before_the_first_batch() -> None:
    registry = CollectorRegistry()
    BatchMetrics(registry, NAME)
    found = samples(registry)

    assert found["group_coordinator_query_up",] == 0
    assert found["group_coordinator_batch_duration_seconds_count",] == 0
    assert math.isnan(found["group_coordinator_watermark_age_seconds",])


@pytest.mark.spark
def test_batches_of_a_real_query(spark: SparkSession, tmp_path: Path) -> None:
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry, NAME)
    spark.streams.addListener(metrics)
    # Stateful, with a watermark an hour behind the rows, which are of now.
    counted = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 10)
        .option("startTimestamp", int(time.time() * 1000))
        .option("numPartitions", 1)
        .load()
        .withWatermark("timestamp", "1 hour")
        .selectExpr("timestamp", "value % 3 AS remainder")
        .dropDuplicatesWithinWatermark(["remainder"])
    )
    query = (
        counted.writeStream.queryName(NAME)
        .format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        wait_for(lambda: not math.isnan(samples(registry)["group_coordinator_watermark_age_seconds",]))
        running = samples(registry)
    finally:
        query.stop()
    wait_for(lambda: samples(registry)["group_coordinator_query_up",] == 0)
    spark.streams.removeListener(metrics)

    assert running["group_coordinator_query_up",] == 1
    assert running["group_coordinator_state_rows",] == 3
    assert running["group_coordinator_input_lag_records",] == 0
    assert running["group_coordinator_batch_duration_seconds_count",] >= 2
    assert 0 < running["group_coordinator_batch_duration_seconds_sum",] < DEADLINE_S
    age = running["group_coordinator_watermark_age_seconds",]
    assert 3_600 - DEADLINE_S < age < 3_600 + DEADLINE_S


@pytest.mark.spark
def test_the_lag_of_a_kafka_source(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    topic = create(bootstrap_servers, partitions=1)
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for _ in range(50):
        producer.send(topic, b"x")
    producer.close()
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry, NAME)
    spark.streams.addListener(metrics)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 30)
        .load()
        .writeStream.queryName(NAME)
        .format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="1 hour")  # one batch: it leaves 20 of 50 unread
        .start()
    )
    try:
        wait_for(lambda: samples(registry)["group_coordinator_batch_duration_seconds_count",] == 1)
        lag = samples(registry)["group_coordinator_input_lag_records",]
    finally:
        query.stop()
        spark.streams.removeListener(metrics)

    assert lag == 20


class Journal(StreamingQueryListener):
    """Added after the metrics, so that what it has heard they have heard."""

    def __init__(self) -> None:
        self.ended: list[object] = []

    def onQueryStarted(self, event) -> None: ...

    def onQueryProgress(self, event) -> None: ...

    def onQueryIdle(self, event) -> None: ...

    def onQueryTerminated(self, event) -> None:
        self.ended.append(event.runId)


@pytest.mark.spark
def test_other_queries_of_the_session_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    registry = CollectorRegistry()
    metrics, journal = BatchMetrics(registry, NAME), Journal()
    spark.streams.addListener(metrics)
    spark.streams.addListener(journal)
    rows = spark.readStream.format("rate").load().writeStream.format("noop")
    query = rows.queryName(NAME).option("checkpointLocation", str(tmp_path / "ours")).start()
    try:
        wait_for(lambda: samples(registry)["group_coordinator_query_up",] == 1)
        other = rows.queryName("other").option("checkpointLocation", str(tmp_path / "other")).start()
        other.stop()
        wait_for(lambda: len(journal.ended) == 1)
        assert samples(registry)["group_coordinator_query_up",] == 1
    finally:
        query.stop()
        spark.streams.removeListener(metrics)
        spark.streams.removeListener(journal)


# -- groups ------------------------------------------------------------------------------------------


@pytest.fixture
def producer(bootstrap_servers: str) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    yield producer
    producer.close()


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    return create(bootstrap_servers, partitions=2, **{"cleanup.policy": "compact"})


def create(bootstrap_servers: str, partitions: int, **configs: str) -> str:
    topic = f"metrics{next(_numbers)}"
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}})
    admin.wait_for_topics([topic])
    admin.close()
    return topic


def picture(state: str, members: int) -> bytes:
    return json.dumps({"group_id": "g", "state": state, "members": [{"member_id": "m"}] * members}).encode()


def groups(registry: CollectorRegistry) -> tuple[dict[str, float], float]:
    """Groups by state as far as there are any, and the members."""
    found = samples(registry)
    by_state = {key[1]: it for key, it in found.items() if key[0] == "group_coordinator_groups" and it}
    return by_state, found["group_coordinator_members",]


@pytest.mark.spark
def test_groups_by_their_newest_pictures(topic: str, producer: KafkaProducer, bootstrap_servers: str) -> None:
    for key, value in [
        (b"a", picture("PreparingRebalance", 1)),
        (b"a", picture("Stable", 2)),
        (b"b", picture("Stable", 3)),
        (b"c", picture("Empty", 0)),
    ]:
        producer.send(topic, key=key, value=value)
    producer.flush()
    registry = CollectorRegistry()
    with GroupMetrics(topic, python_client_config(bootstrap_servers, {})) as metrics:
        registry.register(metrics)
        wait_for(lambda: groups(registry) == ({"Stable": 2, "Empty": 1}, 5))
        producer.send(topic, key=b"b", value=picture("CompletingRebalance", 4))
        wait_for(lambda: groups(registry) == ({"Stable": 1, "CompletingRebalance": 1, "Empty": 1}, 6))


@pytest.mark.spark
def test_a_tombstone_ends_a_group(topic: str, producer: KafkaProducer, bootstrap_servers: str) -> None:
    producer.send(topic, key=b"never seen", value=None)
    producer.send(topic, key=b"a", value=picture("Stable", 2))
    registry = CollectorRegistry()
    with GroupMetrics(topic, python_client_config(bootstrap_servers, {})) as metrics:
        registry.register(metrics)
        wait_for(lambda: groups(registry) == ({"Stable": 1}, 2))
        producer.send(topic, key=b"a", value=None)
        wait_for(lambda: groups(registry) == ({}, 0))


@pytest.mark.spark
def test_what_is_no_picture_is_passed_over(
    topic: str, producer: KafkaProducer, bootstrap_servers: str
) -> None:
    for value in (b"garbage", b"{}", b""):
        producer.send(topic, key=b"a", value=value)
    producer.send(topic, key=b"a", value=picture("Stable", 1))
    registry = CollectorRegistry()
    with GroupMetrics(topic, python_client_config(bootstrap_servers, {})) as metrics:
        registry.register(metrics)
        wait_for(lambda: groups(registry) == ({"Stable": 1}, 1))


@pytest.mark.spark
def test_states_without_groups_are_zero(topic: str, bootstrap_servers: str) -> None:
    registry = CollectorRegistry()
    with GroupMetrics(topic, python_client_config(bootstrap_servers, {})) as metrics:
        registry.register(metrics)
        found = samples(registry)

    assert found == {
        ("group_coordinator_groups", "Empty"): 0,
        ("group_coordinator_groups", "PreparingRebalance"): 0,
        ("group_coordinator_groups", "CompletingRebalance"): 0,
        ("group_coordinator_groups", "Stable"): 0,
        ("group_coordinator_members",): 0,
    }


# -- all of them -------------------------------------------------------------------------------------


def test_served_over_http_until_closed() -> None:
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(lambda: COUNTS))
    port, close = serve_metrics(0, registry)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as answer:
        text = answer.read().decode()
    close()

    assert "group_coordinator_rebalances_total 6.0\n" in text
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S)


def test_a_port_that_somebody_else_has() -> None:
    port, close = serve_metrics(0, CollectorRegistry())
    with pytest.raises(SettingsError) as caught:
        serve_metrics(port, CollectorRegistry())
    close()

    assert str(caught.value).startswith(f"cannot listen on metrics.port {port}: Address already in use; ")


@pytest.mark.spark
def test_names_are_as_prometheus_wants_them(topic: str, bootstrap_servers: str) -> None:
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(lambda: COUNTS))
    BatchMetrics(registry, NAME)
    with GroupMetrics(topic, python_client_config(bootstrap_servers, {})) as metrics:
        registry.register(metrics)
        port, close = serve_metrics(0, registry)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        close()

    ours: list[Any] = [family for family in families if not family.name.endswith("_created")]
    assert len(ours) == 15
    for family in ours:
        assert re.fullmatch(r"group_coordinator(_[a-z]+)+", family.name)
        assert family.documentation.endswith(".")
        is_counter = all(sample.name.endswith("_total") for sample in family.samples)
        assert is_counter == (family.type == "counter")
