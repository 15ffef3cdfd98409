"""The keeper of time."""

from __future__ import annotations

import pytest

from group_coordinator.streaming.schedule import Pace
from group_coordinator.streaming.timekeeper import Timekeeper

PACE = Pace(interval_ms=1_000, max_gap_ms=3_000, ahead_ms=1_500, leeway_ms=1_500)


def keeper(*, counts: bool = True) -> Timekeeper:
    """One whose first tick was at 10 s, at offset 0."""
    made = Timekeeper(PACE)
    made.ticked(10_000, 0, 0)
    if counts:
        made.resume(10_000)
    return made


def test_time_stands_still_until_it_counts() -> None:
    it = keeper(counts=False)
    assert it.coming_ms(11_000, 1, 0, is_quiet=False) == 0
    it.hold(10_500)
    assert it.coming_ms(11_000, 1, 0, is_quiet=False) == 10_500
    # It never comes further than now.
    assert it.coming_ms(10_400, 1, 0, is_quiet=False) == 10_400


def test_before_time_counts_a_late_tick_harms_nobody() -> None:
    it = keeper(counts=False)
    it.coming_ms(90_000, 1, 80_000, is_quiet=False)
    it.ticked(90_000, 1, 0)
    it.resume(91_000)
    assert it.coming_ms(91_000, 2, 0, is_quiet=False) == 91_000
    assert it.late is None


@pytest.mark.parametrize(("leeway_ms", "latest_ms"), [(0, 13_000), (1_500, 14_500)])
def test_a_tick_that_is_late_lets_no_time_come(leeway_ms: int, latest_ms: int) -> None:
    it = keeper()
    it.ticked(10_000, 0, leeway_ms)
    assert it.coming_ms(latest_ms, 1, 0, is_quiet=True) > 0
    assert it.late is None
    assert it.coming_ms(latest_ms + 1, 1, 0, is_quiet=True) == 0
    assert it.late == f"the clock stood still for {latest_ms + 1 - 10_000} ms"


def write_until(it: Timekeeper, at_ms: int, leeway_ms: int = 0) -> None:
    """Tick each second up to then, while partitions take nothing."""
    for tick_ms in range(11_000, at_ms, 1_000):
        it.coming_ms(tick_ms, tick_ms // 1_000, tick_ms - 10_000, is_quiet=False)
        it.ticked(tick_ms, tick_ms // 1_000, leeway_ms)
    assert it.late is None


@pytest.mark.parametrize(("leeway_ms", "longest_ms"), [(0, 3_000), (1_500, 4_500)])
def test_a_partition_that_was_away_for_long_lets_no_time_come(leeway_ms: int, longest_ms: int) -> None:
    it = keeper()
    write_until(it, 16_000, leeway_ms)
    assert it.coming_ms(16_000, 16, 6_000 - longest_ms, is_quiet=False) > 0
    assert it.late is None
    it = keeper()
    write_until(it, 16_000, leeway_ms)
    assert it.coming_ms(16_000, 16, 6_000 - longest_ms - 1, is_quiet=False) == 0
    assert it.late == f"a request partition took no requests for {longest_ms + 1} ms"


def test_a_probe_beside_a_tick_that_had_leeway_may_be_as_late_as_that() -> None:
    it = keeper()
    it.ticked(10_000, 0, 1_500)
    it.coming_ms(14_400, 1, 4_400, is_quiet=True)
    it.ticked(14_400, 1, 0)
    # Requests come again. The newest probe is of the tick before.
    assert it.coming_ms(15_000, 2, 600, is_quiet=False) == 15_000
    it = keeper()
    it.ticked(10_000, 0, 1_500)
    it.coming_ms(10_500, 1, 500, is_quiet=False)
    it.ticked(10_500, 1, 0)
    it.coming_ms(11_000, 2, 1_000, is_quiet=False)
    it.ticked(11_000, 2, 0)
    it.coming_ms(13_500, 3, 0, is_quiet=False)
    assert it.late == "a request partition took no requests for 3500 ms"


def test_time_waits_for_the_reader() -> None:
    it = keeper()
    come = []
    for number in range(1, 6):
        at_ms = 10_000 + 1_000 * number
        # It has read the first tick, and no other.
        come.append(it.coming_ms(at_ms, 1, 0, is_quiet=False))
        it.ticked(at_ms, number, 0)
    assert come == [11_000, *[11_500] * 4]
    # It has read all but the newest one.
    assert it.coming_ms(16_000, 5, 0, is_quiet=False) == 14_000 + 1_500
    # What it has read it has read, whatever it says later.
    assert it.coming_ms(16_000, 1, 0, is_quiet=False) == 14_000 + 1_500


def test_time_waits_until_all_partitions_take_requests() -> None:
    it = keeper()
    assert it.coming_ms(11_000, 1, 1_500, is_quiet=False) == 11_000
    assert it.coming_ms(12_000, 1, 3_000, is_quiet=False) == 10_500


def test_what_a_partition_held_back_was_not_read_with_the_ticks_of_then() -> None:
    it = keeper()
    come = []
    # It takes nothing from 10.5 to 13.5 s, and then the probe of 11 s. Each batch has read all that it could.
    for number, written_ms in enumerate([10_000, 10_000, 10_000, 11_000], 1):
        at_ms = 10_000 + 1_000 * number
        come.append(it.coming_ms(at_ms, number, at_ms - written_ms, is_quiet=False))
        it.ticked(at_ms, number, 0)
    assert come == [11_000, *[10_000 + 1_500] * 3]
    # It takes all again. A request of 10.6 s may be unread until a tick is read that came after that.
    assert it.coming_ms(15_000, 4, 1_000, is_quiet=False) == 10_000 + 1_500
    assert it.coming_ms(15_000, 5, 1_000, is_quiet=False) == 15_000


def test_what_a_partition_held_back_before_time_counted_was_not_read_either() -> None:
    it = keeper(counts=False)
    for number, written_ms in enumerate([9_900, 9_900], 1):
        at_ms = 10_000 + 1_000 * number
        it.coming_ms(at_ms, number, at_ms - written_ms, is_quiet=False)
        it.ticked(at_ms, number, 0)
    it.resume(12_400)
    assert it.coming_ms(13_000, 3, 13_000 - 10_900, is_quiet=False) == 9_900 + 1_500


def test_time_is_further_ahead_while_no_requests_come() -> None:
    assert keeper().coming_ms(13_000, 1, 0, is_quiet=True) == 13_000
