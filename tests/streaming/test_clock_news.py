"""Which clocks are told to be wrong, by the corrections that were counted."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from group_coordinator.streaming.clock_news import ClockNews
from group_coordinator.streaming.counts import Counts


class Told(NamedTuple):
    """It was told that a partition's clock is wrong by so many s, or right again."""

    partition: int
    is_wrong: bool
    ahead_s: float


class Driver:
    """Counts what the executors have corrected, and looks at that."""

    def __init__(self) -> None:
        self._counts = Counts()
        self._said: list[str] = []
        metrics: Any = SimpleNamespace(clock_skew=SimpleNamespace(set=lambda _: None))
        self._news = ClockNews("clock", metrics, self._counts, self._said.append)

    def look(self, at_s: float, *corrections: tuple[int, float]) -> list[Told]:
        """Look after requests have shown by how many s these partitions' clocks are ahead; 0: right again."""
        # New ones, as the driver makes them.
        self._counts.clocks = self._counts.clocks + Counter(
            (partition, round(ahead_s * 10)) for partition, ahead_s in corrections
        )
        self._said.clear()
        self._news.look(0, at_s, broker_is_off=False)
        return list(map(told, self._said))


def told(line: str) -> Told:
    partition = int(line.removeprefix("the clock of request partition ").partition("'")[0])
    wrong = re.search(r" is wrong by ([+-][0-9.]+) s: its requests count as of now$", line)
    assert wrong or line.endswith(" leader is right again")
    return Told(partition, bool(wrong), float(wrong[1]) if wrong else 0)


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_the_same_is_told_once_a_minute(driver: Driver) -> None:
    assert driver.look(1_000) == []
    assert driver.look(1_000, (7, -12)) == [Told(7, True, -12)]
    assert driver.look(1_000.2) == []
    # Other groups send their next request, and show the same.
    assert driver.look(1_000.4, (7, -12)) == []
    assert driver.look(1_059.9, (7, -12)) == []
    # Nobody has shown it since.
    assert driver.look(1_060) == []
    assert driver.look(1_060.2, (7, -11)) == [Told(7, True, -11)]
    assert driver.look(1_120.1, (7, -11)) == []


def test_another_size_is_no_news_before_the_minute_is_over(driver: Driver) -> None:
    assert driver.look(0, (7, 12)) == [Told(7, True, 12)]
    assert driver.look(1, (7, 12.1)) == []
    assert driver.look(2, (7, -40)) == []
    assert driver.look(61, (7, -40.1)) == [Told(7, True, -40.1)]


def test_that_it_is_right_again_is_told_at_once_and_that_it_is_wrong_again(driver: Driver) -> None:
    assert driver.look(0, (7, 12)) == [Told(7, True, 12)]
    assert driver.look(1, (7, 0)) == [Told(7, False, 0)]
    assert driver.look(2, (7, 0), (7, 0)) == []
    assert driver.look(3, (7, -3.6)) == [Told(7, True, -3.6)]
    assert driver.look(4, (7, -3.6)) == []
    assert driver.look(5, (7, 0)) == [Told(7, False, 0)]
    assert driver.look(65, (7, 0)) == [Told(7, False, 0)]


def test_a_clock_is_wrong_by_the_mean_of_what_was_shown_since_the_last_look(driver: Driver) -> None:
    """A request counts as of its batch, a little after it came."""
    assert driver.look(0, (7, 12), (7, 11), (7, 11.5)) == [Told(7, True, 11.5)]
    assert driver.look(30, (7, 90)) == []
    # Of each size as often as it was shown.
    assert driver.look(60, (7, 2), (7, 12), (7, 2), (7, 2)) == [Told(7, True, 4.5)]
    # Those that are right again do not count.
    assert driver.look(120, (7, -6), (7, 0), (7, 0)) == [Told(7, True, -6), Told(7, False, 0)]


def test_each_partition_has_a_leader_of_its_own(driver: Driver) -> None:
    assert driver.look(0, (7, 12), (8, -2.5)) == [Told(7, True, 12), Told(8, True, -2.5)]
    assert driver.look(1, (8, -2.5), (7, 0), (9, 0.5)) == [Told(7, False, 0), Told(9, True, 0.5)]
    assert driver.look(2, (8, 0), (9, 0.5)) == [Told(8, False, 0)]
