"""The topic of sides, most of it on a live broker: read from its beginning, followed, and written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.structs import TopicPartition

from group_coordinator.client import sides_log
from group_coordinator.client.sides_log import SidesLog
from group_coordinator.coordinator_state.sides import Side, SideRecord
from tests.patience import wait_for

_numbers = count()


def record(group_id: str, side: Side, move_id: str = "m") -> SideRecord:
    return SideRecord(group_id=group_id, side=side, at_ms=1, client_id="c", move_id=move_id)


@pytest.fixture
def topic() -> str:
    return f"sides-log-{next(_numbers)}"


@pytest.fixture
def logs(bootstrap_servers: str, topic: str) -> Iterator[tuple[SidesLog, SidesLog]]:
    with ExitStack() as stack:
        config = {"bootstrap_servers": bootstrap_servers}
        yield (
            stack.enter_context(SidesLog(topic, config)),
            stack.enter_context(SidesLog(topic, config, timeout_ms=5_000)),
        )


def create(bootstrap_servers: str, topic: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        admin.create_topics({topic: {"num_partitions": 2}})
        admin.wait_for_topics([topic])


class Consumer:
    """Has one record in each poll, of a partition that it does not name."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {}
    config: ClassVar[dict[str, Any]] = {}

    def __init__(self, **_: Any) -> None:
        self._left = [record("a", "brokers"), record("b", "brokers")]

    def assignment(self) -> set[TopicPartition]:
        return set()

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[SimpleNamespace]]:
        told = self._left.pop(0)
        value = msgspec.json.encode(told)
        return {TopicPartition("sides", 0): [SimpleNamespace(key=told.group_id.encode(), value=value)]}

    def close(self, autocommit: bool) -> None: ...


def test_what_was_read_stays_as_it_is_while_a_thread_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides_log, "KafkaConsumer", Consumer)
    with SidesLog("sides", {}) as log:
        log.poll()
        first = log.read_all()
        log.poll()
        assert first == {"a": record("a", "brokers")}
        assert log.read_all().keys() == {"a", "b"}


@pytest.mark.spark
def test_the_newest_record_of_each_group_counts(
    bootstrap_servers: str, topic: str, logs: tuple[SidesLog, SidesLog]
) -> None:
    first, second = logs
    assert not first.find()
    create(bootstrap_servers, topic)
    wait_for(first.find)
    assert first.read_all() == {}
    first.append(record("a", "brokers"))
    first.append(record("b", "brokers"))
    first.append(record("a", "coordinator"))
    assert second.find()
    assert second.read_all() == {"a": record("a", "coordinator"), "b": record("b", "brokers")}
    first.append(record("b", "coordinator"))
    assert wait_for(second.poll) == {"b": record("b", "coordinator")}
    assert second.read_all()["b"].side == "coordinator"


@pytest.mark.spark
def test_a_record_that_is_none_is_skipped_and_one_without_a_value_deletes(
    bootstrap_servers: str, topic: str, logs: tuple[SidesLog, SidesLog]
) -> None:
    create(bootstrap_servers, topic)
    log, _ = logs
    log.find()
    log.append(record("a", "brokers"))
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer:
        for value in (b"nonsense", b'{"group_id": "a", "side": "moon"}', b'{"version": 2}'):
            producer.send(topic, key=b"a", value=value)
        producer.send(topic, key=None, value=b"x")
        producer.flush()
        assert log.read_all() == {"a": record("a", "brokers")}
        producer.send(topic, key=b"a", value=None)
        producer.flush()
    assert log.read_all() == {}
