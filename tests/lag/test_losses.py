"""Records that retention deletes: how many are lost, and how soon some will be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.structs import TopicPartition

from group_coordinator.client.lag_log import in_words
from group_coordinator.lag.book import Book, PartitionLag
from group_coordinator.lag.losses import Losses

ORDERS = TopicPartition("orders", 0)
_HOUR_MS = 3_600_000


class _World:
    """One group in one partition, measured each time that something is told."""

    def __init__(self) -> None:
        self._book, self._losses = Book(lambda _: True, 10), Losses()

    def measured(self, at_ms: int, *, begin: int | None, committed: int, end: int = 1_000) -> PartitionLag:
        self._book.committed("g", ORDERS, at_ms, committed)
        groups = self._book.measure(at_ms, {ORDERS: end})
        wanted = self._losses.wanted(groups)
        assert wanted == ({ORDERS} if committed < end else set())
        begins = {each: begin for each in wanted if begin is not None}
        (group,) = self._losses.applied(groups, begins, at_ms)
        (lag,) = group.partitions
        assert (group.lost, group.lost_in_ms) == (lag.lost, lag.lost_in_ms)
        return lag

    def hourly(self, begins: Iterator[int] | range, committed: int, first_hour: int = 0) -> list[int | None]:
        """The times until something is lost, as the begin moves once an hour and the group stands still."""
        lags = (
            self.measured(hour * _HOUR_MS, begin=begin, committed=committed)
            for hour, begin in enumerate(begins, first_hour)
        )
        return [each.lost_in_ms for each in lags]


def test_what_lies_before_the_begin_of_the_log_is_lost() -> None:
    world = _World()
    lag = world.measured(0, begin=100, committed=100)
    assert (lag.begin, lag.lost, lag.lost_in_ms) == (100, 0, None)
    lag = world.measured(1_000, begin=350, committed=100)
    assert (lag.lost, lag.lost_in_ms) == (250, 0)
    # The members have gone on where the log begins, and have committed there.
    lag = world.measured(2_000, begin=350, committed=350)
    assert (lag.lost, lag.lost_in_ms) == (0, None)


def test_a_group_that_has_read_all_loses_nothing_whatever_is_deleted() -> None:
    lag = _World().measured(0, begin=None, committed=1_000)
    assert (lag.begin, lag.lost, lag.lost_in_ms) == (-1, 0, None)


def test_a_begin_that_nobody_tells_says_nothing() -> None:
    world = _World()
    assert world.measured(0, begin=None, committed=5).lost == 0
    assert world.measured(1_000, begin=10, committed=5).lost == 5


def test_a_room_that_shrinks_tells_when_it_is_gone() -> None:
    # The first is where it begins to look. Then the begin moves by 10 an hour, and 600 are left.
    told = _World().hourly(range(0, 100, 10), committed=600)
    assert told[:6] == [None] * 6
    assert [each and each / _HOUR_MS for each in told[6:]] == [54, 53, 52, 51]


def test_a_group_as_fast_as_retention_is_not_warned_of() -> None:
    world = _World()
    for hour in range(30):
        lag = world.measured(hour * _HOUR_MS, begin=hour * 10, committed=60 + hour * 10 + hour % 3)
        assert lag.lost_in_ms is None


def test_a_begin_that_stands_still_comes_no_nearer() -> None:
    world = _World()
    world.hourly(range(0, 100, 10), committed=600)
    # The moves took eight hours, and the last one was at nine.
    assert world.measured(17 * _HOUR_MS, begin=90, committed=600).lost_in_ms == 43 * _HOUR_MS
    assert world.measured(18 * _HOUR_MS, begin=90, committed=600).lost_in_ms is None
    # It is late, and nobody knows how much: it may move at any time.
    world = _World()
    assert world.hourly(range(0, 100, 10), committed=100)[-1] == _HOUR_MS
    assert world.measured(15 * _HOUR_MS, begin=90, committed=100).lost_in_ms == 0


def test_a_topic_that_was_made_again_begins_anew() -> None:
    world = _World()
    world.hourly(range(0, 100, 10), committed=600)
    assert world.measured(10 * _HOUR_MS, begin=0, committed=600).lost_in_ms is None
    assert world.hourly(range(0, 60, 10), committed=600, first_hour=11)[-1] is None
    assert world.measured(17 * _HOUR_MS, begin=60, committed=600).lost_in_ms == 54 * _HOUR_MS


@pytest.mark.parametrize(
    ("lost", "lost_in_ms", "words"),
    [
        (0, None, "growing"),
        (1, 0, "growing; 1 record lost"),
        (1_234, 0, "growing; 1,234 records lost"),
        (0, 3 * _HOUR_MS, "growing; lost soon: in 3 h"),
        (0, 24 * _HOUR_MS - 1, "growing; lost soon: in 24 h"),
        (0, 24 * _HOUR_MS, "growing"),
    ],
)
def test_a_loss_in_words(lost: int, lost_in_ms: int | None, words: str) -> None:
    assert in_words("growing", None, lost, lost_in_ms) == words
