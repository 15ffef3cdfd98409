"""The way to the log while Kafka is away, with a broker that is stopped and goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError
from kafka.structs import TopicPartition

from group_coordinator.coordinator_state.newest import header
from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.gateway import stream, topics
from group_coordinator.gateway.outgoing import LogRecord
from group_coordinator.gateway.stream import Listener, Reader, Writer
from tests.patience import PATIENCE_S, eventually
from tests.streaming.registry import create_topic

LEAST_PATIENCE_S = 5.0
"""No request waits for a shorter time (`docs/gateway.md`)."""


def test_no_request_is_answered_before_its_fate_is_known() -> None:
    assert topics._PATIENCE_S + stream._DELIVERY_MS / 1000 <= LEAST_PATIENCE_S
    assert stream._PRODUCER_SETTINGS["delivery_timeout_ms"] == stream._DELIVERY_MS


class Gone:
    """A producer of a topic that is gone until somebody says that it is back."""

    DEFAULT_CONFIG: ClassVar[dict[str, object]] = {}

    def __init__(self, **_settings: object) -> None:
        self.config: dict[str, object] = {}
        self.asked = 0
        self.is_back = False

    def partitions_for(self, _topic: str) -> set[int]:
        return {0}

    def send(self, _topic: str, **_record: object) -> Mock:
        self.asked += 1
        if not self.is_back:
            raise KafkaTimeoutError("Failed to update metadata after 0.005 secs.")
        return Mock()


def test_a_request_topic_that_is_gone_is_looked_for_seldom_and_told_seldom(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[str] = []
    clock = Mock(monotonic=Mock(return_value=0.0))
    monkeypatch.setattr(stream, "KafkaProducer", Gone)
    monkeypatch.setattr(stream, "time", clock)

    async def write() -> tuple[int, int]:
        listener = Listener(print, refused.extend, print, print, print)
        writer = Writer(asyncio.get_running_loop(), listener, "requests", {})
        producer: Any = writer._producer
        for number in range(1_000):
            writer.write(LogRecord(f"{number}", b"g", b"{}"))
        await eventually(lambda: len(refused) == 1_000)
        asked = producer.asked
        producer.is_back = True
        clock.monotonic.return_value = stream._GONE_S
        for number in range(1_000):
            writer.write(LogRecord(f"{number}", b"g", b"{}"))
        return asked, producer.asked

    assert asyncio.run(write()) == (1, 1_001)
    assert len(refused) == 1_000
    (said,) = caplog.messages
    assert said.startswith("1 requests cannot be written: ")


@pytest.mark.parametrize("error", [MessageSizeTooLargeError("too large"), KafkaError("of this one")])
def test_what_is_wrong_with_one_request_refuses_no_other(
    monkeypatch: pytest.MonkeyPatch, error: KafkaError
) -> None:
    refused: list[str] = []
    monkeypatch.setattr(stream, "KafkaProducer", Gone)

    async def write() -> int:
        listener = Listener(print, refused.extend, print, print, print)
        writer = Writer(asyncio.get_running_loop(), listener, "requests", {})
        producer: Any = writer._producer
        producer.send = Mock(side_effect=[error, Mock()])
        for number in range(2):
            writer.write(LogRecord(f"{number}", b"g", b"{}"))
        await eventually(lambda: bool(refused))
        return int(producer.send.call_count)

    assert asyncio.run(write()) == 2
    assert refused == ["0"]


@pytest.mark.spark
def test_heartbeats_that_are_together_too_large_for_the_topic_arrive_all_the_same(
    bootstrap_servers: str,
) -> None:
    topic = create_topic(bootstrap_servers, 1, **{"max.message.bytes": "100000"})
    records = [LogRecord(f"{number}", b"g", bytes([48 + number]) * 40_000) for number in range(10)]
    taken: list[str] = []
    refused: list[str] = []

    async def write() -> None:
        listener = Listener(taken.extend, refused.extend, print, print, print)
        config = {"bootstrap_servers": bootstrap_servers}
        writer = Writer(asyncio.get_running_loop(), listener, topic, config)
        missing = records
        async with asyncio.timeout(PATIENCE_S):
            while missing:
                # A broker that stands still for some seconds takes none, however small they are.
                done = len(taken) + len(refused) + len(missing)
                for each in missing:
                    writer.write(each)
                await eventually(lambda done=done: len(taken) + len(refused) == done)  # type: ignore[misc]
                missing = [each for each in records if each.request_id not in taken]
        writer.close(PATIENCE_S)

    asyncio.run(write())
    assert sorted(taken) == [each.request_id for each in records]


@pytest.mark.spark
def test_a_reader_tells_of_which_pictures_answers_know_that_it_has_not_read(
    bootstrap_servers: str,
) -> None:
    groups, responses = (create_topic(bootstrap_servers, 1) for _ in range(2))
    picture = {"group_id": "g", "state": "Empty", "protocol_type": None}
    answer = {"api": "delete_group", "request_id": "1", "client_id": "c", "group_id": "g"}
    read: list[int | None] = []
    told: list[Sequence[tuple[str, int]]] = []

    def write(producer: KafkaProducer, topic: str, value: Any, place: int | None) -> None:
        headers = [] if place is None else [header(place)]
        producer.send(topic, key=b"g", value=json.dumps(value).encode(), headers=headers).get(PATIENCE_S)

    async def follow() -> None:
        listener = Listener(
            print,
            print,
            lambda _, unseen: told.append(unseen),
            lambda its, _: read.extend(place for *_, place in its),
            print,
        )
        config = {"bootstrap_servers": bootstrap_servers}
        reader = Reader(
            asyncio.get_running_loop(), listener, [responses], 0, [TopicPartition(groups, 0)], config
        )
        with closing(reader), closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer:
            write(producer, groups, picture, 5)
            await eventually(lambda: read == [5])
            for number, place in enumerate((None, 4, 5, 6)):
                write(producer, responses, answer, place)
                await eventually(lambda number=number: len(told) == number + 1)  # type: ignore[misc]

    asyncio.run(follow())
    assert told == [[], [], [], [("g", 6)]]


@pytest.mark.spark
def test_a_request_may_be_as_large_as_the_topic_takes_it(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, 1, **{"max.message.bytes": "3000000"})
    taken: list[str] = []
    refused: list[str] = []

    async def write() -> None:
        listener = Listener(taken.extend, refused.extend, print, print, print)
        writer = Writer(asyncio.get_running_loop(), listener, topic, {"bootstrap_servers": bootstrap_servers})
        async with asyncio.timeout(PATIENCE_S):
            while not taken:
                # A broker that stands still for some seconds takes none.
                done = len(refused) + 1
                writer.write(LogRecord("large", b"g", bytes(2_500_000)))
                await eventually(lambda done=done: len(taken) + len(refused) == done)  # type: ignore[misc]
            writer.write(LogRecord("larger", b"g", bytes(3_500_000)))
            await eventually(lambda: "larger" in refused)
        writer.close(PATIENCE_S)

    asyncio.run(write())
    assert taken == ["large"]


@pytest.mark.spark
@pytest.mark.verify
def test_what_kafka_has_not_taken_in_time_never_comes_and_all_is_well_again_after(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
            admin.create_topics([NewTopic("requests", num_partitions=1, replication_factor=1)])
        taken, refused = asyncio.run(_outage(broker))
        assert refused == ["in flight", "waiting"]
        with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)) as consumer:
            partition = TopicPartition("requests", 0)
            consumer.assign([partition])
            consumer.seek_to_beginning()
            read: list[str] = []
            while consumer.position(partition) < consumer.end_offsets([partition])[partition]:
                for records in consumer.poll(timeout_ms=500).values():
                    read += [each.value.decode() for each in records]
    # Nobody can take back what the broker has received: it may write that when it goes on.
    assert [each for each in read if each != "in flight"] == taken
    assert (taken[0], taken[-1][:5]) == ("before", "after")


async def _outage(broker: EmbeddedBroker) -> tuple[list[str], list[str]]:
    """Write before, while and after the broker stands still; returns what was taken, and what was refused."""
    taken: list[str] = []
    refused: list[str] = []
    listener = Listener(taken.extend, refused.extend, print, print, print)
    kafka = {"bootstrap_servers": broker.bootstrap_servers}
    writer = Writer(asyncio.get_running_loop(), listener, "requests", kafka)
    assert broker.pid is not None

    def write(text: str) -> None:
        writer.write(LogRecord(text, b"g", text.encode()))

    write("before")
    await eventually(lambda: taken)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        write("in flight")
        # The next one goes into a batch of its own.
        await asyncio.sleep(0.5)
        write("waiting")
        await eventually(lambda: len(refused) == 2)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    for number in range(round(PATIENCE_S)):
        # Until the producer has found the broker again, requests may be refused.
        done = len(taken) + len(refused)
        write(f"after {number}")
        await eventually(lambda done=done: len(taken) + len(refused) > done)  # type: ignore[misc]
        if len(taken) > 1:
            break
    writer.close(PATIENCE_S)
    return taken, refused[:2]
