"""Assignments of Kafka's own consumers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from group_coordinator.coordinator_state.consumer_protocol import partitions_of


def encoded(version: int = 0, **topics: list[int]) -> bytes:
    part = ConsumerProtocolAssignment.TopicPartition
    assigned = [part(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
    written = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=b"x", version=version)
    return bytes(written.encode())


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_as_kafka_python_writes_them(version: int) -> None:
    written = encoded(version, t=[2, 0], u=[1])
    assert partitions_of(written) == [("t", 2), ("t", 0), ("u", 1)]


def test_nothing_is_owned() -> None:
    assert partitions_of(b"") == partitions_of(encoded()) == partitions_of(encoded(t=[])) == []


@pytest.mark.parametrize(
    "assignment",
    [
        b"\0",
        struct.pack(">hi", 0, 1),
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hih", 0, 1, -5),
        struct.pack(">hih1si", 0, 1, 1, b"t", 2**31 - 1),
        struct.pack(">hih1si", 0, 1, 1, b"t", -1),
        struct.pack(">hih1sii", 0, 1, 1, b"t", 2, 7),
    ],
)
def test_others_are_none(assignment: bytes) -> None:
    with pytest.raises(struct.error):
        partitions_of(assignment)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(assignment: bytes) -> None:
    try:
        partitions_of(assignment)
    except struct.error:
        return
