"""The order of a log."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.coordinator_state.log import Record, in_log_order


def records(*places: tuple[int, int, int]) -> list[Record]:
    return [Record("requests", partition, offset, at, b"k", b"v") for partition, offset, at in places]


def places(log: list[Record]) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in log]


def test_no_records():
    assert in_log_order([]) == []


def test_one_partition_is_in_the_order_of_its_offsets():
    log = records((3, 2, 10), (3, 0, 10), (3, 1, 10))
    assert places(in_log_order(log)) == [(3, 0), (3, 1), (3, 2)]


def test_clock_that_was_set_back_does_not_change_the_order():
    log = records((0, 0, 100), (0, 1, 50), (0, 2, 70), (0, 3, 101))
    assert places(in_log_order(log)) == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_partitions_are_merged_by_time():
    log = records((0, 5, 10), (0, 6, 30), (1, 8, 20), (1, 9, 40))
    assert places(in_log_order(log)) == [(0, 5), (1, 8), (0, 6), (1, 9)]


def test_same_millisecond_goes_by_partition_and_offset():
    log = records((1, 0, 10), (0, 9, 10), (0, 8, 10))
    assert places(in_log_order(log)) == [(0, 8), (0, 9), (1, 0)]


def test_records_without_a_time_go_by_partition():
    log = records((1, 0, -1), (2, 0, -1))
    assert places(in_log_order(log)) == [(1, 0), (2, 0)]


def test_clock_that_was_set_back_in_one_partition_does_not_pass_another():
    # What comes after 100 in its partition counts as of 100.
    log = records((0, 0, 100), (0, 1, 10), (1, 0, 60))
    assert places(in_log_order(log)) == [(1, 0), (0, 0), (0, 1)]


places_of_a_log = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)), unique_by=lambda it: it[:2]
)


@given(places_of_a_log, st.randoms(use_true_random=False))
def test_shuffle_makes_no_difference(drawn, rng: random.Random):
    log = records(*drawn)
    shuffled = log.copy()
    rng.shuffle(shuffled)
    assert in_log_order(shuffled) == in_log_order(log)


@given(places_of_a_log, st.lists(st.integers(0, 30)))
def test_pieces_of_an_ordered_log_are_in_the_same_order(drawn, cuts):
    log = in_log_order(records(*drawn))
    bounds = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    pieces = [log[a:b] for a, b in pairwise(bounds)]
    assert [record for piece in pieces for record in in_log_order(piece)] == log
