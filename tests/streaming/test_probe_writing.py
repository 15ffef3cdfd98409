"""Probes as they are written to a broker."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from group_coordinator.coordinator_state.log import PROBE
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.streaming.probes import Probes
from tests.patience import wait_for
from tests.topics import Reader

pytestmark = pytest.mark.spark

PARTITIONS = 3
_numbers = itertools.count(1)


@pytest.fixture
def config(bootstrap_servers: str) -> dict[str, Any]:
    return python_client_config(bootstrap_servers, {})


@pytest.fixture
def admin(config: dict[str, Any]) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(**config)) as admin:
        yield admin


@pytest.fixture
def topic(admin: KafkaAdminClient) -> str:
    return create(admin)


def create(admin: KafkaAdminClient, **configs: str) -> str:
    name = f"probed{next(_numbers)}"
    spec = {"num_partitions": PARTITIONS, "replication_factor": 1, "configs": configs}
    admin.create_topics({name: spec})
    admin.wait_for_topics([name])
    return name


def test_each_partition_takes_probes(topic: str, config: dict[str, Any]) -> None:
    with (
        Probes(
            topic, PARTITIONS, config, interval_ms=60_000, harmless_ms=60_000, patience_ms=60_000
        ) as probes,
        Reader(config, topic) as reader,
    ):
        wait_for(lambda: probes.settle([]) is not None)
        assert probes.settle([]) == set()
        probes.begin([])
        assert probes.stuck() == probes.healed() == set()
        reader.until(lambda records: len(records) >= PARTITIONS)
    assert Counter(it.partition for it in reader.records) == {0: 1, 1: 1, 2: 1}
    assert {(it.key, it.value) for it in reader.records} == {(None, PROBE)}


def test_they_come_again_and_again(topic: str, config: dict[str, Any]) -> None:
    with (
        Probes(topic, PARTITIONS, config, interval_ms=50, harmless_ms=60_000, patience_ms=60_000) as probes,
        Reader(config, topic) as reader,
    ):
        wait_for(lambda: probes.settle([]) is not None)
        reader.until(lambda records: len(records) >= 5 * PARTITIONS)
    each = Counter(it.partition for it in reader.records)
    assert each.keys() == set(range(PARTITIONS))
    assert max(each.values()) - min(each.values()) <= 1


def test_partitions_that_take_nothing_are_told_and_when_they_do_again(
    admin: KafkaAdminClient, config: dict[str, Any]
) -> None:
    # Less than any record has.
    topic = create(admin, **{"max.message.bytes": "1"})
    with Probes(topic, PARTITIONS, config, interval_ms=50, harmless_ms=500, patience_ms=1_000) as probes:
        wait_for(lambda: probes.settle([]) is not None)
        standing = probes.settle([])
        assert standing == set(range(PARTITIONS))
        probes.begin(standing)
        assert probes.healed() == set()
        enough = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "1000"})
        admin.alter_configs([enough])
        wait_for(lambda: probes.healed() == standing)


def test_without_an_interval_there_are_none(topic: str, config: dict[str, Any]) -> None:
    with Probes(topic, PARTITIONS, config, interval_ms=0, harmless_ms=500, patience_ms=1_000) as probes:
        probes.tick()
        assert probes.settle([]) == set()
        assert probes.unwritten_ms() == 0
    with Reader(config, topic) as reader:
        reader.read_to_end()
    assert reader.records == []


def test_the_end_does_not_wait_for_a_broker_that_is_away() -> None:
    config = python_client_config("127.0.0.1:1", {})
    with Probes("t", PARTITIONS, config, interval_ms=50, harmless_ms=500, patience_ms=1_000) as probes:
        wait_for(lambda: probes.settle([]) is not None)
        assert probes.settle([]) == set(range(PARTITIONS))
