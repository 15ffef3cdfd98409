"""Partitions as bytes, and back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.coordinator_state.consumer.partitions import (
    Held,
    Partitions,
    pack,
    pack_held,
    unpack,
    unpack_held,
)

TEN_OF_TEN: Partitions = {topic: {7 * topic} for topic in range(10)}
NUMBERS = st.one_of(st.integers(0, 12), st.integers(0, 2**31 - 1))


@pytest.mark.parametrize(
    ("partitions", "numbers"),
    [
        ({3: {5}}, [3, 5, 1]),
        ({3: {7, 5, 6}}, [3, 5, 3]),
        ({0: {0, 1, 3}}, [0, 0, 2, 0, 3, 1]),
        # The second topic goes on where the first one ends, and is a run of its own.
        ({2: {2}, 1: {0, 1}}, [1, 0, 2, 1, 2, 1]),
        ({4: set(range(10_000))}, [4, 0, 10_000]),
    ],
)
def test_neighbours_are_one_run(partitions, numbers):
    assert pack(partitions) == msgspec.msgpack.encode(numbers)
    assert unpack(pack(partitions)) == partitions


@pytest.mark.parametrize(
    ("held", "numbers"),
    [
        ({3: {5: 9}}, [3, 5, 1, 9]),
        ({3: {7: 9, 5: 9, 6: 9}}, [3, 5, 3, 9]),
        # A run has one epoch. What is stored of it is the difference to the run before.
        ({0: {0: 300, 1: 300, 2: 301, 4: 301}}, [0, 0, 2, 300, 0, 2, 1, 1, 0, 4, 1, 0]),
        ({2: {2: 8}, 1: {0: 9, 1: 9}}, [1, 0, 2, 9, 1, 2, 1, -1]),
    ],
)
def test_neighbours_of_one_epoch_are_one_run(held, numbers):
    assert pack_held(held) == msgspec.msgpack.encode(numbers)
    assert unpack_held(pack_held(held)) == held


def test_nothing_takes_no_bytes():
    assert pack({}) == pack({4: set()}) == pack_held({}) == pack_held({4: {}}) == b""
    assert unpack(b"") == unpack_held(b"") == {}


def test_member_with_ten_partitions_of_ten_topics_takes_80_bytes():
    held: Held = {topic: dict.fromkeys(each, 70_000) for topic, each in TEN_OF_TEN.items()}
    assert len(pack(TEN_OF_TEN)) == 33
    assert len(pack_held(held)) == 47


def test_member_with_ten_epochs_takes_little_more():
    held: Held = {topic: {9: 70_000 + 100 * topic} for topic in range(200, 210)}
    assert len(pack_held(held)) == 48


@pytest.mark.parametrize("numbers", [[1], [1, 2], [1, 2, 1, 0, 5]])
def test_bytes_that_are_cut_off_are_no_partitions(numbers):
    with pytest.raises(ValueError, match="zip"):
        unpack(msgspec.msgpack.encode(numbers))
    with pytest.raises(ValueError, match="zip"):
        unpack_held(msgspec.msgpack.encode(numbers))


@given(st.dictionaries(NUMBERS, st.sets(NUMBERS, min_size=1)), st.randoms(use_true_random=False))
def test_unpack_undoes_pack_and_order_makes_no_difference(partitions, rng):
    packed = pack(partitions)
    assert unpack(packed) == partitions
    topics = list(partitions)
    rng.shuffle(topics)
    assert pack({topic: partitions[topic] for topic in topics}) == packed


@given(
    st.dictionaries(NUMBERS, st.dictionaries(NUMBERS, NUMBERS, min_size=1)), st.randoms(use_true_random=False)
)
def test_unpack_held_undoes_pack_held_and_order_makes_no_difference(held, rng):
    packed = pack_held(held)
    assert unpack_held(packed) == held
    topics = list(held)
    rng.shuffle(topics)
    assert pack_held({topic: dict(reversed(held[topic].items())) for topic in topics}) == packed
