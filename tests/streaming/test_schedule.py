from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.streaming.schedule import Pace, Schedule
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.timers import Timers

PACE = Pace(interval_ms=1_000, max_gap_ms=3_000, ahead_ms=3_000, slack_ms=500, quiet_ms=3_000)
NOW_MS = 100_000


def add(timers: Timers, *due_ms: int) -> None:
    told = Timers()
    for each in due_ms:
        told.move(None, each)
    timers.add(told)


class Scene:
    """A schedule whose newest tick is of 100,000 and is read; time counts."""

    def __init__(self, *due_ms: int) -> None:
        self.timers = Timers()
        self.under_test = Schedule(PACE, self.timers)
        self.offset = 0
        self.tick(NOW_MS)
        self.under_test.resume()
        add(self.timers, *due_ms)

    def tick(self, at_ms: int) -> None:
        """The ticks before it are read."""
        self.offset += 1
        self.under_test.ticked(at_ms, self.offset, read=self.offset)

    def next_ms(self, *, is_read: bool = True) -> int:
        return self.under_test.next_ms(self.offset + is_read)


@pytest.mark.parametrize(
    ("newest_ms", "next_ms"),
    [(NOW_MS, 101_000), (100_001, 101_000), (100_500, 101_000), (100_501, 102_000), (100_999, 102_000)],
)
def test_regular_ticks_are_at_multiples_of_the_interval(newest_ms: int, next_ms: int) -> None:
    scene = Scene()
    scene.tick(newest_ms)
    assert scene.next_ms() == next_ms


def test_regular_ticks_are_fewer_while_no_requests_come() -> None:
    scene = Scene(104_900)
    due = []
    for newest_ms in (NOW_MS, 100_500, 100_999, 103_004):
        scene.tick(newest_ms)
        due.append(scene.under_test.next_ms(scene.offset + 1, is_quiet=True))
    # But for deadlines.
    assert due == [103_000, 103_000, 103_000, 105_401]
    assert scene.next_ms() == 104_000


@given(st.integers(0, 10**9))
def test_time_need_not_wait_for_the_reader_of_a_quiet_clock(newest_ms: int) -> None:
    scene = Scene()
    scene.tick(newest_ms)
    due_ms = scene.under_test.next_ms(scene.offset + 1, is_quiet=True)
    assert PACE.interval_ms // 2 <= due_ms - newest_ms <= PACE.ahead_ms


@pytest.mark.parametrize(
    ("settings", "quiet_ms", "leeway_ms"),
    [
        ({}, 3_000, 1_500),
        ({"clock.interval.ms": 200}, 600, 1_500),
        ({"clock.interval.ms": 2_000}, 3_000, 1_500),
        ({"clock.max.gap.ms": 2_500}, 2_500, 1_250),
        ({"clock.max.gap.ms": 6_000}, 3_000, 3_000),
    ],
)
def test_a_quiet_clock_has_leeway(settings: dict[str, object], quiet_ms: int, leeway_ms: int) -> None:
    given = {"bootstrap.servers": "b:9092", "checkpoint": "c"} | settings
    pace = Pace.of(CoordinatorSettings.load(None, {}, given))
    assert (pace.quiet_ms, pace.leeway_ms) == (quiet_ms, leeway_ms)


def test_a_tick_comes_when_the_watermark_can_pass_a_deadline() -> None:
    assert Scene(100_200).next_ms() == 100_701
    # After any other there is half an interval.
    assert Scene(99_600).next_ms() == 100_500
    # The regular one is in time.
    assert Scene(100_600).next_ms() == 101_000


def test_another_one_follows_as_soon_as_that_is_read() -> None:
    """Its batch has the watermark with which the deadline fires."""
    scene = Scene(100_200)
    scene.tick(100_701)
    assert scene.next_ms(is_read=False) == 102_000
    assert scene.under_test.waits
    assert scene.next_ms() == 100_701
    scene.tick(100_760)
    assert scene.next_ms() == 102_000
    assert not scene.under_test.waits


def test_a_tick_that_follows_is_followed_by_none_at_once() -> None:
    scene = Scene(100_200, 100_250, 100_300)
    scene.tick(100_701)
    scene.tick(100_801)
    assert scene.next_ms() == 101_301


def test_a_regular_tick_that_passes_a_deadline_is_followed_as_well() -> None:
    scene = Scene(100_400)
    scene.tick(101_000)
    assert scene.next_ms() == 101_000


def test_a_deadline_that_has_moved_needs_no_tick() -> None:
    scene = Scene(100_200)
    told = Timers()
    told.move(100_200, 110_200)
    scene.timers.add(told)
    assert scene.next_ms() == 101_000


def test_while_time_stands_still_nothing_is_due() -> None:
    timers = Timers()
    schedule = Schedule(PACE, timers)
    schedule.ticked(NOW_MS, 0)
    add(timers, 100_200)
    assert schedule.next_ms(1) == 101_000
    schedule.resume()
    assert schedule.next_ms(1) == 100_701


@given(st.lists(st.integers(NOW_MS - 400, NOW_MS + 20_000), max_size=30))
def test_ticks_are_neither_late_nor_many(due_ms: list[int]) -> None:
    """Each deadline passes soon, and no more than two ticks come in half an interval."""
    scene = Scene(*due_ms)
    ticks = [NOW_MS]
    while ticks[-1] < NOW_MS + 22_000:
        at_ms = max(scene.next_ms(), ticks[-1] + 1)
        scene.tick(at_ms)
        ticks.append(at_ms)
    for due in due_ms:
        passing = next(place for place, at_ms in enumerate(ticks) if at_ms - PACE.slack_ms > due)
        # Deadlines of a tenth of a second share a tick.
        assert ticks[passing] <= max(due, NOW_MS) + PACE.slack_ms + 100 + PACE.interval_ms // 2 + 1
        assert ticks[passing + 1] - ticks[passing] <= PACE.interval_ms // 2 + 1
    assert all(later - at_ms >= PACE.interval_ms // 2 for at_ms, later in zip(ticks, ticks[2:], strict=False))
    assert all(later - at_ms <= 1.5 * PACE.interval_ms for at_ms, later in pairwise(ticks))
