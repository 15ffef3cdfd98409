from __future__ import annotations

import itertools
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.streaming.clock import Clock, Progress
from group_coordinator.streaming.schedule import Pace
from group_coordinator.streaming.ticks import Beginning, Tick, TickReader, read_tick

pytestmark = pytest.mark.spark

QUIET_S = 60
OFTEN = Pace(50, 60_000, 60_000)
SELDOM = Pace(3_600_000, 3_600_000, 3_600_000)
_numbers = itertools.count(1)


@pytest.fixture
def config(bootstrap_servers: str) -> dict[str, Any]:
    return python_client_config(bootstrap_servers, {})


@pytest.fixture
def topic(config: dict[str, Any]) -> str:
    name = f"takeover{next(_numbers)}"
    admin = KafkaAdminClient(**config)
    admin.create_topics({name: {"num_partitions": 1, "configs": {"message.timestamp.type": "LogAppendTime"}}})
    admin.wait_for_topics([name])
    admin.close()
    return name


def test_nobody_was_ever_there(topic: str, config: dict[str, Any]) -> None:
    with TickReader(topic, config) as reader:
        assert (reader.running(QUIET_S), reader.is_live) == (None, False)


def test_somebody_is_there(topic: str, config: dict[str, Any]) -> None:
    with Clock(topic, OFTEN, config, "somebody"), TickReader(topic, config) as reader:
        tick = reader.running(QUIET_S)
        assert tick is not None
        assert tick.coordinator == "somebody"
        while not reader.is_live:
            reader.poll(1)


def test_a_tick_that_is_there_and_not_read_yet_counts(topic: str, config: dict[str, Any]) -> None:
    with Clock(topic, SELDOM, config, "somebody"), TickReader(topic, config) as reader:
        assert reader.running(0) is None
        with Clock(topic, SELDOM, config, "another"):
            assert reader.running(0) is not None


def test_somebody_was_there_and_said_farewell(topic: str, config: dict[str, Any]) -> None:
    with Clock(topic, OFTEN, config, "somebody"):
        pass
    with TickReader(topic, config) as reader:
        assert (reader.running(QUIET_S), reader.is_live) == (None, False)


def test_somebody_says_farewell_in_the_meantime(topic: str, config: dict[str, Any]) -> None:
    with TickReader(topic, config) as reader:
        with Clock(topic, OFTEN, config, "somebody"):
            while not reader.is_live:
                reader.poll(1)
            assert reader.running(QUIET_S) is not None
        while reader.running(QUIET_S) is not None:
            reader.poll(1)


def test_who_falls_silent_is_taken_for_dead(topic: str, config: dict[str, Any]) -> None:
    with Clock(topic, SELDOM, config, "somebody"), TickReader(topic, config) as reader:
        assert reader.running(QUIET_S) == Tick(tick=1, coordinator="somebody")
        reader.poll(0.3)
        assert reader.running(0.2) is None
        assert not reader.is_live


def test_who_has_leeway_is_taken_for_dead_later(topic: str, config: dict[str, Any]) -> None:
    quiet = Progress(is_quiet=lambda: True)
    pace = SELDOM._replace(leeway_ms=3_600_000)
    with Clock(topic, pace, config, "somebody", quiet), TickReader(topic, config) as reader:
        reader.poll(0.3)
        assert reader.running(0.2) is not None


@pytest.mark.parametrize(
    "value",
    [
        *(
            None,
            b"",
            b"?",
            b"[]",
            b'{"tick":"7"}',
            b'{"tick":1,"coordinator":"\xff"}',
            b'{"tick":1,"a":"\xff"}',
        ),
        *(b'{"a":' + b"[" * 100_000, b'{"tick":1,"leeway_ms":%d}' % (1 << 60), b'{"tick":1,"leeway_ms":-1}'),
    ],
)
def test_a_record_that_is_no_tick_is_one_without_a_number(value: bytes | None) -> None:
    assert read_tick(value) == Tick(tick=0)


@pytest.mark.parametrize("value", [b'{"tick":7}', b"?", b'{"tick":1,"coordinator":"\xff"}'])
def test_tick_of_another_version_is_a_sign_of_life(topic: str, config: dict[str, Any], value: bytes) -> None:
    producer = KafkaProducer(**config)
    producer.send(topic, value).get(30)
    producer.close()
    with TickReader(topic, config) as reader:
        assert reader.running(QUIET_S) is not None


def test_who_has_begun(topic: str, config: dict[str, Any]) -> None:
    with TickReader(topic, config) as reader:
        with Clock(topic, SELDOM, config, "one"):
            pass
        with Clock(topic, SELDOM, config, "two"):
            while reader.newest_beginning is None or reader.newest_beginning.coordinator != "two":
                reader.poll(1)
    # Each of them has written its first tick, and the first one its last.
    assert reader.newest_beginning == Beginning(2, "two")


def test_who_was_taken_for_dead_counts_for_nothing(topic: str, config: dict[str, Any]) -> None:
    producer = KafkaProducer(**config)
    with Clock(topic, SELDOM, config, "old") as old:
        with Clock(topic, SELDOM, config, "new"):
            producer.send(topic, b'{"tick":2,"coordinator":"old"}').get(30)
            with TickReader(topic, config, old.look_from) as reader:
                assert reader.running(QUIET_S) == Tick(tick=1, coordinator="new")
        # Nor does it when the other one has ended.
        producer.send(topic, b'{"tick":3,"coordinator":"old"}').get(30)
        with TickReader(topic, config, old.look_from) as reader:
            assert reader.running(QUIET_S) is None
    producer.close()
