"""`group-coordinator measure-lag`, beside a real coordinator and a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator import AdminClient
from group_coordinator.client import lag_log
from group_coordinator.client.lag_log import LagLog, Measurement
from tests.commands.job import Process
from tests.patience import PATIENCE_S, wait_for
from tests.streaming.harness import Harness

pytestmark = pytest.mark.spark

TOPIC, LAG_TOPIC = "measured", "measured.lag"


@pytest.fixture
def harness(spark: Any, bootstrap_servers: str, tmp_path: Path) -> Iterator[Harness]:
    with Harness(spark, bootstrap_servers, tmp_path) as harness:
        yield harness


@pytest.fixture
def measuring(harness: Harness, tmp_path: Path) -> Iterator[Process]:
    process = Process(
        tmp_path,
        *("measure-lag", "--bootstrap-server", harness.settings.bootstrap_servers, "--groups", "etl-*"),
        *("--set", f"topics.offsets={harness.settings.topics_offsets}", "--set", "lag.interval.ms=200"),
        *("--set", f"topics.lag={LAG_TOPIC}", "--create-topics", "--metrics-port", "0"),
    )
    yield process
    process.terminate()
    assert process.exit_code() == 0, process.said


def check_measurement(stopped: Any, partitions: list[TopicPartition], servers: str) -> None:
    """The topic has the same as the metrics, and only groups that are measured."""
    assert (stopped.interval_ms, stopped.at_least) == (200, False)
    assert stopped.records == sum(each.records for each in stopped.partitions.values()) > 6
    assert set(stopped.partitions) == set(partitions)
    assert {each.error_ms for each in stopped.partitions.values()} == {0}
    assert 3_600_000 <= stopped.age_ms < 3_600_000 + PATIENCE_S * 1_000
    with LagLog(LAG_TOPIC, {"bootstrap_servers": servers}) as others:
        assert set(others.newest()) == {"etl-1"}
        # Nobody measures any more, as far as a clock of an hour later knows.
        later_ms = stopped.measured_timestamp_ms + 3_600_000
        with mock.patch.object(lag_log, "_now_ms", return_value=later_ms):
            assert others.newest() == {}
    with LagLog("measured.nothing", {"bootstrap_servers": servers}) as others:
        assert others.newest() == {}


def test_a_group_that_falls_behind_grows_stops_and_comes_back(harness: Harness, measuring: Process) -> None:
    harness.start_and_warm_up()
    servers = harness.settings.bootstrap_servers
    partitions = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]

    def figure(name: str, *labels: str) -> float | None:
        return measuring.metrics().get((name, "kafka", "etl-1", *labels))

    def measured(status: str, age_by: str = "ends") -> Measurement | None:
        """The newest measurement in the topic, if all its partitions are like that."""
        found = lags.newest(["etl-1"]).get("etl-1")
        are = set() if found is None else {(each.status, each.age_by) for each in found.partitions.values()}
        return found if are == {(status, age_by)} else None

    with (
        LagLog(LAG_TOPIC, {"bootstrap_servers": servers}) as lags,
        closing(KafkaAdminClient(bootstrap_servers=servers)) as topics,
        closing(KafkaProducer(bootstrap_servers=servers)) as producer,
        closing(
            AdminClient(
                bootstrap_servers=servers,
                request_topic=harness.settings.topics_requests,
                response_topic=harness.settings.topics_responses,
            )
        ) as admin,
    ):
        topics.create_topics([NewTopic(TOPIC, 2, 1)])

        def commit(group_id: str, offset: int) -> None:
            offsets = {each: OffsetAndMetadata(offset, "", -1) for each in partitions}
            admin.alter_group_offsets(group_id, offsets)

        def produce(count: int) -> Any:
            for _ in range(count):
                for each in partitions:
                    sent = producer.send(TOPIC, b"x", partition=each.partition)
            return sent.get(60)

        for group_id in ("other", "others"):
            commit(group_id, 0)
        measuring.wait_until(lambda: "that have committed is etl-*" in str(measuring.said))
        commit("etl-1", 0)
        wait_for(lambda: figure("kafka_consumergroup_group_sum_lag") == 0)
        # The next record is an hour old, as after an outage of what writes them.
        hour_ago_ms = round((time.time() - 3_600) * 1_000)
        for each in partitions:
            producer.send(TOPIC, b"x", partition=each.partition, timestamp_ms=hour_ago_ms).get(60)
        produce(2)
        wait_for(lambda: figure("kafka_consumergroup_group_sum_lag") == 6)
        age_s = figure("kafka_consumergroup_group_max_lag_seconds")
        assert age_s is not None
        assert figure("kafka_consumergroup_group_lag", "1", TOPIC) == 3
        wait_for(lambda: (figure("kafka_consumergroup_group_max_lag_seconds") or 0) > age_s)
        assert figure("group_coordinator_lag_error_seconds") != float("inf")
        # It commits no more, and its lag grows.
        wait_for(lambda: figure("group_coordinator_lag_growing") == 1, meanwhile=lambda: produce(1))
        wait_for(lambda: figure("group_coordinator_lag_partitions", "stopped") == 2)
        # They stand still: now it is the record's own time that counts.
        stopped = wait_for(lambda: measured("stopped", "record"))
        check_measurement(stopped, partitions, servers)
        wait_for(lambda: measuring.metrics()[("group_coordinator_lag_writes_total", "written")] > 1)
        assert measuring.metrics()[("group_coordinator_lag_writes_total", "lost")] == 0
        assert (stopped.lost_records, stopped.lost_in_ms) == (0, None)
        assert figure("group_coordinator_lag_lost_records") == 0
        topics.delete_records({partitions[0]: 2})
        wait_for(lambda: figure("group_coordinator_lag_lost_records") == 2)
        lost = wait_for(lambda: (found := measured("stopped", "record")) and found.lost_records and found)
        assert (lost.lost_records, lost.lost_in_ms) == (2, 0)
        assert lost.partitions[partitions[0]].log_start_offset == 2
        commit("etl-1", produce(1).offset + 1)
        wait_for(lambda: figure("kafka_consumergroup_group_sum_lag") == 0)
        assert figure("group_coordinator_lag_partitions", "ok") == 2
        assert figure("group_coordinator_lag_lost_records") == 0
        wait_for(lambda: (found := measured("ok")) and (found.records, found.age_ms) == (0, 0))
        assert not [key for key in measuring.metrics() if "other" in key]
        assert measuring.probe("readyz") == (200, "measuring 1 groups")
        topics.delete_topics([TOPIC])
        wait_for(lambda: figure("kafka_consumergroup_group_sum_lag") is None)
