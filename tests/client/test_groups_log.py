"""The list of groups, from records that a fake consumer hands out."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import msgspec
import pytest
from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition

from group_coordinator.client import groups_log
from group_coordinator.client.groups_log import GroupListing, read_groups
from group_coordinator.coordinator_state.responses import GroupPicture
from tests.client.brokers import Brokers

TOPIC = "coordinator.groups"


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Consumer:
    """Partitions as lists of records, of which compaction has left some; a poll takes one from each."""

    DEFAULT_CONFIG: ClassVar = {"bootstrap_servers": None, "group_id": None}
    partitions: ClassVar[dict[TopicPartition, list[Record]]] = {}
    ends: ClassVar[dict[TopicPartition, int]] = {}
    made: ClassVar[list[Consumer]] = []

    def __init__(self, **settings):
        self.settings = settings
        self.positions = {}
        self.closed = False
        self.made.append(self)
        self.config = {"request_timeout_ms": 1_000}
        self._manager = Brokers(
            {it: (of[0].offset if of else 0, self.ends[it]) for it, of in self.partitions.items()}
        )

    def assign(self, partitions):
        self.assigned = partitions

    def seek(self, partition, offset):
        self.positions[partition] = offset

    def position(self, partition):
        return self.positions[partition]

    def poll(self, timeout_ms):
        polled = {}
        for partition, position in self.positions.items():
            left = [record for record in self.partitions[partition] if record.offset >= position]
            if left:
                polled[partition] = left[:1]
                self.positions[partition] = left[0].offset + 1
        return polled

    def close(self, autocommit):
        self.closed = True


@pytest.fixture
def fill(monkeypatch):
    monkeypatch.setattr(groups_log, "KafkaConsumer", Consumer)
    monkeypatch.setattr(Consumer, "made", [])

    def fill(*partitions, more=0):
        """`partitions` are lists of (offset, key, value)."""
        filled = {
            TopicPartition(TOPIC, number): [Record(TOPIC, number, *record) for record in records]
            for number, records in enumerate(partitions)
        }
        ends = {each: records[-1].offset + 1 + more if records else 0 for each, records in filled.items()}
        monkeypatch.setattr(Consumer, "partitions", filled)
        monkeypatch.setattr(Consumer, "ends", ends)

    return fill


def picture(group_id, state, protocol_type=None, group_type="classic"):
    return msgspec.json.encode(
        GroupPicture(
            group_id=group_id,
            state=state,
            generation_id=1,
            protocol_type=protocol_type,
            protocol_name=None,
            leader=None,
            members=[],
            state_timestamp_ms=1,
            group_type=group_type,
        )
    )


def read(partitions=1, timeout_ms=1):
    return read_groups(TOPIC, partitions, {"bootstrap_servers": "k:1", "acks": "all"}, timeout_ms)


def test_newest_picture_counts_and_a_tombstone_ends_it(fill):
    fill(
        [(3, b"b", picture("b", "Empty")), (5, b"b", picture("b", "Stable", "units")), (9, b"c", None)],
        [(0, b"d", picture("d", "Empty")), (1, b"d", None), (2, b"a", picture("a", "Empty"))],
        [],
    )

    assert [GroupListing("a", "Empty", ""), GroupListing("b", "Stable", "units")] == read(3)
    (consumer,) = Consumer.made
    assert {"bootstrap_servers": "k:1", "group_id": None} == {
        name: consumer.settings[name] for name in ("bootstrap_servers", "group_id")
    }
    assert "acks" not in consumer.settings
    assert [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)] == consumer.assigned
    assert consumer.closed


def test_pictures_tell_the_type_since_there_are_two(fill):
    written_before = msgspec.json.decode(picture("a", "Empty"))
    del written_before["group_type"]
    fill(
        [
            (0, b"a", msgspec.json.encode(written_before)),
            (1, b"b", picture("b", "Stable", "consumer", "consumer")),
        ]
    )

    assert [GroupListing("a", "Empty", ""), GroupListing("b", "Stable", "consumer", "consumer")] == read()


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"group_id": 1}', b"\xff", b'{"a":' + b"[" * 100_000])
@pytest.mark.usefixtures("tells_all_that_is_skipped")
def test_record_that_is_no_picture_is_skipped_with_a_warning(fill, caplog, value):
    fill([(0, b"a", picture("a", "Empty")), (1, b"a", value), (2, b"b", picture("b", "Empty"))])

    assert ["a", "b"] == [group.group_id for group in read()]
    assert "coordinator.groups, partition 0, offset 1 is no picture" in caplog.text


def test_no_groups_are_an_empty_list(fill):
    fill([], [])

    assert [] == read(2)


def test_topic_that_cannot_be_read_to_its_end_is_an_error(fill):
    fill([(0, b"a", picture("a", "Empty"))], more=1)

    with pytest.raises(KafkaTimeoutError, match=r"'coordinator\.groups' could not be read for 1 ms"):
        read()
    assert Consumer.made[0].closed
