"""Probes as they are written to a broker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType

from group_coordinator.checkpoints.times import append_times
from group_coordinator.coordinator_state.log import PROBE
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.streaming import probe_sender
from group_coordinator.streaming.probes import Probes
from group_coordinator.streaming.write_times import WriteTimes
from tests.patience import wait_for
from tests.repeating import repeating
from tests.streaming.registry import create_topic
from tests.topics import Reader

pytestmark = pytest.mark.spark

PARTITIONS = 3
_TICK_S = 0.05


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    return create_topic(bootstrap_servers, PARTITIONS)


@pytest.fixture
def refusing(bootstrap_servers: str) -> str:
    """A topic that takes nothing: each record is larger."""
    return create_topic(bootstrap_servers, PARTITIONS, **{"max.message.bytes": "1"})


@contextmanager
def ticking(asked: Probes) -> Iterator[None]:
    """Let a clock tick beside these probes."""

    def tick() -> None:
        asked.ticks()
        asked.ticked()

    with repeating(tick, _TICK_S):
        yield


def test_each_partition_takes_a_probe_at_first(topic: str, config: dict[str, Any]) -> None:
    with Probes(topic, PARTITIONS, config, patience_ms=60_000) as asked, Reader(config, topic) as reader:
        asked.begin([])
        wait_for(lambda: not asked.unknown())
        assert asked.silent() == {}
        assert asked.healed() == set()
        reader.until(lambda records: len(records) >= PARTITIONS)
    assert Counter(it.partition for it in reader.records) == {0: 1, 1: 1, 2: 1}
    assert {(it.key, it.value) for it in reader.records} == {(None, PROBE)}


def test_none_of_them_is_a_request_whose_time_counts(topic: str, config: dict[str, Any]) -> None:
    with closing(KafkaProducer(**config)) as producer:
        records = (None, PROBE), (None, b"{}"), (b"g", PROBE), (None, PROBE)
        sent = [producer.send(topic, key=key, value=value, partition=0).get() for key, value in records]
    found = append_times(config, topic, dict.fromkeys(range(PARTITIONS), 0), {0: 4, 1: 0, 2: 0})
    assert found == {0: [it.timestamp for it in sent[1:3]]}


def test_they_come_beside_each_tick(topic: str, config: dict[str, Any]) -> None:
    with Probes(topic, PARTITIONS, config, patience_ms=60_000) as asked, Reader(config, topic) as reader:
        for number in range(1, 5):
            asked.ticks()
            asked.ticked()
            reader.until(lambda records, least=number: len(records) >= least * PARTITIONS)
            # A partition whose probe is on its way gets none beside the next tick. A record can be read
            # before its sender knows that it is written.
            wait_for(lambda: asked._times.due(ticks=True) == list(range(PARTITIONS)))
    counts = Counter(it.partition for it in reader.records)
    assert all(4 <= counts[it] <= 5 for it in range(PARTITIONS)), counts


def test_partitions_that_take_nothing_are_told_and_when_they_do_again(
    refusing: str, admin: KafkaAdminClient, config: dict[str, Any]
) -> None:
    begin = time.monotonic()
    with Probes(refusing, PARTITIONS, config, patience_ms=1_000) as asked, ticking(asked):
        asked_ms: dict[int, float] = {}

        def all_are_silent() -> bool:
            asked_ms.update(asked.silent())
            return len(asked_ms) == PARTITIONS

        wait_for(all_are_silent)
        longest_ms = (time.monotonic() - begin) * 1_000
        assert all(1_000 < each <= longest_ms for each in asked_ms.values())
        standing = asked_ms.keys()
        asked.begin(standing)
        assert asked.silent() == {}
        assert asked.healed() == set()
        enough = ConfigResource(ConfigResourceType.TOPIC, refusing, {"max.message.bytes": "1000"})
        admin.alter_configs([enough])
        wait_for(lambda: asked.healed() == standing)


def test_one_that_is_refused_is_sent_again_at_the_next_look(
    refusing: str, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, send = Counter[int](), WriteTimes.sent

    def count(times: WriteTimes, partition: int, now_ms: float) -> None:
        sent[partition] += 1
        send(times, partition, now_ms)

    monkeypatch.setattr(WriteTimes, "sent", count)
    begin = time.monotonic()
    with Probes(refusing, PARTITIONS, config, patience_ms=1_000):
        # No clock ticks.
        wait_for(lambda: sent.total() >= 4 * PARTITIONS)
    looks = (time.monotonic() - begin) / 0.2
    assert all(1 < each <= looks + 2 for each in sent.values())


def test_what_ends_the_thread_is_raised(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(probe_sender, "KafkaProducer", broken)
    with Probes("t", PARTITIONS, config, patience_ms=1_000) as asked:
        with pytest.raises(ZeroDivisionError):
            wait_for(lambda: asked.silent() != {})
        with pytest.raises(ZeroDivisionError):
            asked.healed()


def test_without_partitions_to_ask_there_are_none(topic: str, config: dict[str, Any]) -> None:
    with Probes(topic, 0, config, patience_ms=1_000) as asked:
        asked.ticks()
        assert asked.silent() == {}
        assert asked.unwritten_ms() == 0
    with Reader(config, topic) as reader:
        reader.read_to_end()
    assert reader.records == []


def test_the_end_does_not_wait_for_a_broker_that_is_away() -> None:
    config = python_client_config("127.0.0.1:1", {})
    with Probes("t", PARTITIONS, config, patience_ms=1_000) as asked:
        wait_for(lambda: asked.unwritten_ms() > 2_000)
        # No tick was taken either.
        assert asked.silent() == {}
