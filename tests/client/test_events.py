"""Events, from records that a fake consumer hands out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import pytest
from kafka.errors import OffsetOutOfRangeError
from kafka.structs import TopicPartition

from group_coordinator.client import events
from group_coordinator.client.channel import MissingTopicError
from group_coordinator.client.events import EventReader
from group_coordinator.coordinator_state.topics import EVENTS
from tests.client.brokers import Brokers


class Record(NamedTuple):
    offset: int
    timestamp: int
    value: bytes | None


class Consumer:
    """Partitions as lists of records. A poll gives what is left."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {"bootstrap_servers": None, "group_id": None}
    partitions: ClassVar[list[list[Record]]] = []
    is_closed = False

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.positions: dict[TopicPartition, int] = {}
        self.config = {"request_timeout_ms": 1_000}
        self._manager = Brokers(
            lambda: {TopicPartition(EVENTS, it): (0, len(of)) for it, of in enumerate(self.partitions)},
            lambda each, at_ms: next(
                (it.offset for it in self.partitions[each.partition] if it.timestamp >= at_ms), -1
            ),
        )

    def partitions_for_topic(self, _topic: str) -> set[int]:
        return set(range(len(self.partitions)))

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        assert timeout_ms == 100
        left = {each: self.partitions[each.partition][position:] for each, position in self.positions.items()}
        self.positions = {each: len(self.partitions[each.partition]) for each in self.positions}
        return {each: records for each, records in left.items() if records}

    def close(self, *, autocommit: bool = False) -> None:
        assert not autocommit
        Consumer.is_closed = True


@pytest.fixture(autouse=True)
def partitions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Record]]]:
    monkeypatch.setattr(events, "KafkaConsumer", Consumer)
    Consumer.is_closed = False
    Consumer.partitions[:] = [[], []]
    yield Consumer.partitions
    Consumer.partitions.clear()


def write(partition: int, at_ms: int, group: str, event: str = "group_created", **fields: Any) -> None:
    value = {"event_id": f"{group}@{at_ms}", "event": event, "group_id": group, "at_ms": at_ms, **fields}
    put(partition, at_ms, json.dumps(value).encode())


def put(partition: int, at_ms: int, value: bytes | None) -> None:
    records = Consumer.partitions[partition]
    records.append(Record(len(records), at_ms, value))


def told(reader: EventReader) -> list[tuple[str, int]]:
    return [(each["group_id"], each["at_ms"]) for each in reader.poll(100)]


def test_events_come_in_the_order_of_their_times() -> None:
    write(0, 10, "a")
    write(0, 30, "a")
    write(1, 20, "b")
    with EventReader(since_ms=0) as reader:
        assert not reader.has_caught_up
        assert told(reader) == [("a", 10), ("b", 20), ("a", 30)]
        assert reader.has_caught_up
        assert not Consumer.is_closed
    assert Consumer.is_closed


def test_reading_begins_at_a_time_or_now() -> None:
    for at_ms in (10, 20):
        write(0, at_ms, "a")
    write(1, 15, "b")
    late, now = EventReader(since_ms=16), EventReader()
    assert now.has_caught_up
    write(1, 30, "b")
    # Partition 1 had nothing that young, and what comes is read all the same.
    assert told(late) == [("a", 20), ("b", 30)]
    assert told(now) == [("b", 30)]


def test_reading_begins_at_offsets() -> None:
    for at_ms in (10, 20, 30):
        write(0, at_ms, "a")
    write(1, 15, "b")
    with EventReader(begins={0: 2}) as reader:
        assert [(offset, event["at_ms"]) for offset, event in reader.poll_placed(100)] == [(0, 15), (2, 30)]
    assert EventReader(begins={0: 3, 1: 1}).has_caught_up


@pytest.mark.parametrize("begin", [-1, 2])
def test_offsets_that_are_not_there_are_refused(begin: int) -> None:
    """Records that are too old are gone, and a topic that was made again has fewer."""
    write(0, 10, "a")
    with pytest.raises(OffsetOutOfRangeError, match=rf"has offsets 0 to 1, and {begin} is not among them"):
        EventReader(begins={0: begin})
    assert Consumer.is_closed


def test_a_repeated_event_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that was killed repeats a batch, under the same ids."""
    monkeypatch.setattr(events, "_REMEMBERED", 2)
    reader = EventReader()
    for at_ms in (10, 20, 20, 10, 30, 30, 10):
        write(0, at_ms, "a")
    # What is too long ago is forgotten.
    assert told(reader) == [("a", 10), ("a", 10), ("a", 20), ("a", 30)]


def test_only_some_groups() -> None:
    reader = EventReader(groups=["b"])
    write(0, 10, "a")
    write(1, 20, "b")
    assert told(reader) == [("b", 20)]


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"no json", b"[]", b"{}", b'{"event_id":1,"event":"e","group_id":"g","at_ms":1}'),
        *(b"\xff", b'{"a":"\xff"}', b'{"a":' + b"[" * 100_000),
        # A time that no calendar has.
        b'{"event_id":"a","event":"e","group_id":"g","at_ms":%d}' % (1 << 60),
        b'{"event_id":"a","event":"e","group_id":"g","at_ms":-1}',
    ],
)
def test_what_is_no_event_is_left_out(value: bytes | None) -> None:
    reader = EventReader()
    put(0, 10, value)
    write(0, 20, "a")
    assert told(reader) == [("a", 20)]


def test_a_kind_that_is_not_known_yet_is_told_as_it_is() -> None:
    reader = EventReader()
    write(0, 10, "a", event="group_renamed", new_name="b")
    (event,) = reader.poll(100)
    assert (event["event"], event["new_name"]) == ("group_renamed", "b")


def test_without_the_topic() -> None:
    Consumer.partitions.clear()
    with pytest.raises(MissingTopicError, match=r"coordinator\.events"):
        EventReader()
    assert Consumer.is_closed
    with pytest.raises(ValueError, match="no_such_setting"):
        EventReader(no_such_setting=1)
