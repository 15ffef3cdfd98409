"""The committed offsets of a group, and how they are stored."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.committed import (
    CommittedOffset,
    CommittedOffsets,
    offset_key,
)
from group_coordinator.coordinator_state.responses import OffsetFetchResponse
from tests.coordinator_state.scenario import Scenario, only


def committed(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset, -1, metadata, 1_000)


def some() -> CommittedOffsets:
    offsets = CommittedOffsets()
    offsets.put("t", 0, committed(5), 1)
    offsets.put("t", 1, committed(6, "m"), 1)
    offsets.put("u", 0, committed(7), 1)
    return offsets


def content(offsets: CommittedOffsets) -> dict[str, dict[int, CommittedOffset]]:
    return {topic: dict(offsets.of_topic(topic)) for topic in offsets.topics()}


def test_stored_and_read():
    again = CommittedOffsets(some().encode())
    assert content(again) == {"t": {0: committed(5), 1: committed(6, "m")}, "u": {0: committed(7)}}
    assert (len(again), again.bytes_held) == (3, some().bytes_held)
    assert again.get("u", 0) == committed(7)
    assert (again.get("u", 1), again.get("v", 0)) == (None, None)


def test_nothing():
    offsets = CommittedOffsets()
    assert (len(offsets), offsets.bytes_held, offsets.encode(), offsets.topics()) == (0, 0, b"", [])


def test_what_is_not_changed_is_stored_as_it_came():
    stored = some().encode()
    offsets = CommittedOffsets(stored)
    assert offsets.encode() is stored
    assert offsets.get("t", 0) == committed(5)
    assert offsets.encode() is stored


def test_what_is_changed_is_stored_as_if_all_had_been_read():
    offsets = CommittedOffsets(some().encode())
    offsets.put("u", 0, committed(8), 1)
    at_once = some()
    at_once.put("u", 0, committed(8), 1)
    assert offsets.encode() == at_once.encode()


def test_changes():
    offsets = CommittedOffsets(some().encode())
    assert offsets.changes == {}
    offsets.put("t", 0, committed(8), 11)
    offsets.put("t", 0, committed(9), 12)
    assert offsets.delete("t", 1, 13)
    assert not offsets.delete("t", 1, 1)
    assert not offsets.delete("v", 0, 1)
    assert offsets.changes == {("t", 0): (committed(9), 12), ("t", 1): (None, 13)}


def test_counts_go_up_and_down():
    offsets = some()
    bytes_held = offsets.bytes_held
    offsets.put("u", 0, committed(7, "mm"), 1)
    assert (len(offsets), offsets.bytes_held) == (3, bytes_held + 2)
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        offsets.delete(topic, partition, 1)
    assert (len(offsets), offsets.bytes_held, offsets.encode(), offsets.topics()) == (0, 0, b"", [])


@pytest.mark.parametrize(
    ("topic", "partition", "metadata"),
    [("t", 0, ""), ("t", 0, "more"), ("t", 2, ""), ("v", 0, 'quoted " and \n')],
    ids=["the same", "more metadata", "another partition", "another topic"],
)
def test_growth_is_what_put_adds(topic, partition, metadata):
    offsets = some()
    before = len(offsets), offsets.bytes_held
    count, size = offsets.growth(topic, partition, committed(9, metadata))
    offsets.put(topic, partition, committed(9, metadata), 1)
    assert (len(offsets), offsets.bytes_held) == (before[0] + count, before[1] + size)


def test_bytes_held_are_enough_for_the_answer_that_lists_all():
    s = Scenario()
    extreme = {
        "partition_index": 2**31 - 1,
        "committed_offset": -(2**63),
        "committed_leader_epoch": -(2**31),
        "committed_metadata": '\x01\n"ä\N{GRINNING FACE}' * 50,
    }
    topics = [{"name": name, "partitions": [extreme]} for name in ("\x01" * 200, "ä" * 255, "t")]
    s.send("offset_commit", "tool", topics=topics)
    reply = only(s.send("offset_fetch", "admin"))
    assert isinstance(reply, OffsetFetchResponse)
    assert len(msgspec.json.encode(reply.topics)) <= CommittedOffsets(s.group.offsets).bytes_held + 2


def test_a_commit_reads_only_the_topics_it_names(monkeypatch):
    stored = some().encode()
    read = []
    decode = msgspec.msgpack.decode
    monkeypatch.setattr(
        "group_coordinator.coordinator_state.committed.msgspec.msgpack.decode",
        lambda data, **kwargs: read.append(bytes(data)) or decode(data, **kwargs),
    )
    offsets = CommittedOffsets(stored)
    offsets.put("u", 0, committed(8), 1)
    offsets.encode()
    assert len(read) == 2, "the whole, and u"


def test_record_keys():
    assert offset_key("größe", 't"', 3) == '["größe","t\\"",3]'.encode()
