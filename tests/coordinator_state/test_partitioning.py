"""Partitions are where others put keys, to the bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from group_coordinator.coordinator_state.partitioning import partition_for_key, state_partition_for_key

# What Spark 4.2 answers to `hash(key)` of a binary key.
SPARK_HASHES = {
    b"": 142593372,
    b"a": 1485273170,
    b"ab": -97053317,
    b"b": 1905031361,
    b"abc": 1322437556,
    b"abcd": -396302900,
    b"orders": 1175203872,
    "größe".encode(): 244174222,
    b"\xff\xfe\x80": 131870668,
    bytes(range(33)): -148765681,
}


@given(st.binary(max_size=40), st.integers(1, 1_000))
def test_topic_partition_is_kafkas(key, partitions):
    assert partition_for_key(key, partitions) == (murmur2(key) & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize(("key", "java"), [(b"21", -973932308), (b"foobar", -790332482)])
def test_topic_partition_is_that_of_the_java_client(key, java):
    # The hashes are those of UtilsTest.testMurmur2 of Apache Kafka.
    assert partition_for_key(key, 1000) == (java & 0x7FFFFFFF) % 1000


@pytest.mark.parametrize("key", SPARK_HASHES)
@pytest.mark.parametrize("partitions", [1, 2, 7, 200])
def test_state_partition_is_sparks(key, partitions):
    assert state_partition_for_key(key, partitions) == SPARK_HASHES[key] % partitions
