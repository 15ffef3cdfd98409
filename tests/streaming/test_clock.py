from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

from streaming.clock import Clock
from streaming.kafka_config import python_client_config

pytestmark = pytest.mark.spark

DEADLINE_S = 30
_numbers = itertools.count(1)


@pytest.fixture
def config(bootstrap_servers: str) -> dict[str, Any]:
    return python_client_config(bootstrap_servers, {})


@pytest.fixture
def admin(config: dict[str, Any]) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(**config)
    yield admin
    admin.close()


@pytest.fixture
def topic(admin: KafkaAdminClient) -> str:
    name = f"clock{next(_numbers)}"
    create(admin, name)
    return name


def create(admin: KafkaAdminClient, topic: str) -> None:
    configs = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1, "configs": configs}})
    admin.wait_for_topics([topic])


def read(topic: str, config: dict[str, Any], at_least: int) -> list[Any]:
    """The records of the topic, once there are so many."""
    consumer = KafkaConsumer(**config, group_id=None)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    records: list[Any] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(records) < at_least and time.monotonic() < deadline:
        records += consumer.poll(timeout_ms=100).get(partition, [])
    consumer.close()
    assert len(records) >= at_least
    return records


def end_of(topic: str, config: dict[str, Any]) -> int:
    consumer = KafkaConsumer(**config, group_id=None)
    (end,) = consumer.end_offsets([TopicPartition(topic, 0)]).values()
    consumer.close()
    return int(end)


def test_ticks_come_one_after_the_other(topic: str, config: dict[str, Any]) -> None:
    with Clock(topic, 50, config):
        records = read(topic, config, at_least=5)

    assert [json.loads(record.value) for record in records[:5]] == [{"tick": n} for n in range(1, 6)]
    assert {record.key for record in records} == {None}


def test_time_is_the_brokers(topic: str, config: dict[str, Any]) -> None:
    with Clock(topic, 50, config):
        record = read(topic, config, at_least=1)[0]

    log_append_time = 1
    assert record.timestamp_type == log_append_time


def test_the_interval_is_kept(topic: str, config: dict[str, Any]) -> None:
    with Clock(topic, 200, config):
        times = [record.timestamp for record in read(topic, config, at_least=6)]

    # A busy machine may make the first one late, and any of the others.
    assert times[5] - times[0] >= 5 * 200 - 500
    assert times[5] - times[0] < 5 * 200 + 5_000


def test_no_tick_comes_before_the_first_interval_is_over(topic: str, config: dict[str, Any]) -> None:
    with Clock(topic, 3_600_000, config):
        pass

    assert end_of(topic, config) == 0


def test_the_clock_stops_with_its_context(topic: str, config: dict[str, Any]) -> None:
    with Clock(topic, 10, config):
        read(topic, config, at_least=1)
    threads = {thread.name for thread in threading.enumerate()}
    end = end_of(topic, config)

    assert "clock" not in threads
    # What was sent has arrived: nothing trickles in later.
    assert len(read(topic, config, at_least=end)) == end


def test_the_end_does_not_wait_for_the_interval(topic: str, config: dict[str, Any]) -> None:
    begun = time.monotonic()
    with Clock(topic, 3_600_000, config):
        pass

    assert time.monotonic() - begun < 20


def test_the_clock_goes_on_after_kafka_was_of_no_use(admin: KafkaAdminClient, config: dict[str, Any]) -> None:
    topic = f"clock{next(_numbers)}"
    # Without the topic a send gives up after this time, and says so with an exception.
    with Clock(topic, 50, config | {"max_block_ms": 200, "metadata_max_age_ms": 200}):
        threading.Event().wait(1)
        create(admin, topic)
        records = read(topic, config, at_least=1)

    assert json.loads(records[0].value)["tick"] > 1
