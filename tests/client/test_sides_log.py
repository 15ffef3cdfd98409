"""The topic of sides on a live broker: read from its beginning, followed, and written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from group_coordinator.client.sides_log import SidesLog
from group_coordinator.coordinator_state.sides import Side, SideRecord
from tests.patience import wait_for

pytestmark = pytest.mark.spark

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
    assert second.newest["b"].side == "coordinator"


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
