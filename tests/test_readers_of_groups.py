"""Readers of the topic of groups never go back, whatever a coordinator that was superseded writes late."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest
from kafka import KafkaProducer
from kafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from group_coordinator.client.groups_log import read_groups
from group_coordinator.coordinator_state.newest import header
from group_coordinator.coordinator_state.topics import GROUPS
from group_coordinator.demo.observer import Observer
from group_coordinator.gateway.groups import ListedGroup
from group_coordinator.gateway.stream import Listener, Reader
from group_coordinator.page.live import Live
from group_coordinator.streaming.metrics import GroupMetrics
from tests.patience import PATIENCE_S, eventually, wait_for
from tests.streaming.registry import create_topic, samples

OLD_PLACE, NEW_PLACE = 5, 6


@pytest.fixture
def producer(bootstrap_servers: str) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    yield producer
    producer.close()


def picture(group_id: str, state: str) -> bytes:
    return json.dumps(
        {
            "group_id": group_id,
            "state": state,
            "generation_id": 1,
            "protocol_type": "consumer",
            "protocol_name": None,
            "leader": None,
            "members": [],
            "state_timestamp_ms": 1_000,
        }
    ).encode()


RECORDS: list[tuple[str, str | None, int | None]] = [
    # Somebody else has written it.
    ("of no place", "Empty", None),
    ("changed", "Empty", OLD_PLACE),
    ("changed", "Stable", NEW_PLACE),
    ("changed", "Empty", OLD_PLACE),
    ("deleted", "Empty", OLD_PLACE),
    ("deleted", None, NEW_PLACE),
    ("deleted", "Empty", OLD_PLACE),
    ("made again", None, OLD_PLACE),
    ("made again", "Stable", NEW_PLACE),
    ("made again", None, OLD_PLACE),
    ("the last", "Empty", OLD_PLACE),
]
NOW = {"of no place": "Empty", "changed": "Stable", "made again": "Stable", "the last": "Empty"}
NOW_BY_STATE = ("Stable", "Empty")
"""Two of each, and only when all was read."""


class Record(NamedTuple):
    topic: str
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]


def records(topic: str = GROUPS) -> Iterator[Record]:
    for group_id, state, place in RECORDS:
        value = None if state is None else picture(group_id, state)
        yield Record(topic, group_id.encode(), value, [] if place is None else [header(place)])


def fill(producer: KafkaProducer, topic: str) -> None:
    for each in records(topic):
        producer.send(topic, key=each.key, value=each.value, headers=each.headers).get(PATIENCE_S)


@pytest.mark.spark
def test_all_readers_have_the_newest(producer: KafkaProducer, bootstrap_servers: str) -> None:
    config = {"bootstrap_servers": bootstrap_servers}
    topic, events, clock = (create_topic(bootstrap_servers, partitions=1) for _ in range(3))
    fill(producer, topic)

    assert {each.group_id: each.group_state for each in read_groups(topic, 1, config, 10_000)} == NOW

    with Live(topic, events, clock, config) as live:
        wait_for(lambda: live.problem is None)
        assert {each.group_id: each.state for each in live.memory.groups()} == NOW

    registry = CollectorRegistry()
    with GroupMetrics(topic, config) as metrics:
        registry.register(metrics)
        wait_for(lambda: [samples(registry)["group_coordinator_groups", it] for it in NOW_BY_STATE] == [2, 2])

    asyncio.run(read_with_gateway(topic, events, bootstrap_servers))


async def read_with_gateway(topic: str, responses: str, bootstrap_servers: str) -> None:
    found: dict[str, ListedGroup | None] = {}

    def take(groups: list[tuple[str, ListedGroup | None, int | None]], _is_ready: bool) -> None:
        found.update({group_id: group for group_id, group, _ in groups})

    listener = Listener(print, print, print, take, print)
    config = {"bootstrap_servers": bootstrap_servers}
    with ExitStack() as stack:
        loop = asyncio.get_running_loop()
        reader = Reader(loop, listener, [responses], 0, [TopicPartition(topic, 0)], config)
        stack.callback(reader.close)
        await eventually(lambda: "the last" in found)
    assert {group_id: group.state for group_id, group in found.items() if group is not None} == NOW


def test_the_demo_has_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.demo.observer.KafkaConsumer", lambda **_: None)
    shown = {}
    for group_id in dict.fromkeys(group_id for group_id, *_ in RECORDS):
        observer = Observer("unused", group_id)
        for record in records():
            observer._take(record)
        shown[group_id] = observer.picture and observer.picture.state
    assert shown == NOW | {"deleted": None}
