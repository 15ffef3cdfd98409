from __future__ import annotations

import pickle

import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.streaming.counts import Counts, CountsParam
from group_coordinator.streaming.timers import DeadlinesKnown, Timers
from tests.coordinator_state.test_step import call, join

DAY_MS = 86_400_000


@pytest.fixture
def timers() -> Timers:
    """Those of the driver."""
    timers = Timers()
    timers.passed_ms = 10_000
    return timers


def moves(*pairs: tuple[int | None, int | None]) -> Timers:
    told = Timers()
    for from_ms, to_ms in pairs:
        told.move(from_ms, to_ms)
    return told


def test_the_earliest_after_a_time_is_found(timers: Timers) -> None:
    timers.add(moves((None, 20_000), (None, 30_000), (None, 25_000)))
    assert [timers.next_ms(after) for after in (0, 20_000, 25_000, 30_000)] == [20_000, 25_000, 30_000, None]


def test_times_are_rounded_up_so_that_deadlines_share_a_tick(timers: Timers) -> None:
    timers.add(moves((None, 20_001), (None, 20_100), (None, 20_101)))
    assert (timers.next_ms(0), timers.next_ms(20_100), timers.next_ms(20_200)) == (20_100, 20_200, None)


def test_a_timer_that_moves_is_at_its_new_time_only(timers: Timers) -> None:
    timers.add(moves((None, 20_000), (None, 20_000)))
    timers.add(moves((20_000, 30_000)))
    assert (timers.next_ms(0), timers.next_ms(20_000)) == (20_000, 30_000)
    timers.add(moves((20_000, None), (30_000, 30_000)))
    assert timers.next_ms(0) == 30_000


def test_a_timer_that_nobody_knew_of_takes_none_away(timers: Timers) -> None:
    timers.add(moves((20_000, 30_000)))
    timers.add(moves((None, 20_000)))
    assert timers.next_ms(0) == 20_000


def test_what_has_passed_is_not_kept(timers: Timers) -> None:
    """However far away it was: a session may last as long as `group.max.session.timeout.ms` allows."""
    timers.add(moves((None, 10_000), (None, 10_000 + DAY_MS)))
    assert timers.next_ms(0) == 10_000 + DAY_MS
    timers.passed_ms += DAY_MS
    timers.add(moves())
    assert timers.next_ms(0) is None


LONGEST_SESSION_S = 1_800


@pytest.fixture
def known(timers: Timers) -> DeadlinesKnown:
    return DeadlinesKnown(timers, LONGEST_SESSION_S)


@pytest.mark.parametrize(
    ("groups", "is_quiet", "is_known"),
    [(0, True, True), (0, False, True), (2, True, True), (2, False, False), (3, True, False)],
)
def test_all_are_known_when_all_groups_have_told_theirs(
    groups: int, is_quiet: bool, is_known: bool, timers: Timers, known: DeadlinesKnown
) -> None:
    """Two have. While requests come a group may have told its timer, and not be counted yet."""
    timers.add(moves((None, 20_000), (None, 20_000)))
    known.look(groups, 0, is_quiet=is_quiet)
    assert known.all is is_known


def test_all_are_known_after_the_longest_session(known: DeadlinesKnown) -> None:
    """That is counted from when time counts."""
    for at_s in (100, LONGEST_SESSION_S + 160):
        known.look(1, at_s, is_quiet=False)
        assert not known.all
    known.look(1, LONGEST_SESSION_S + 160.1, is_quiet=False)
    assert known.all


def test_what_is_known_stays_known_until_another_coordinator_may_have_moved_it(
    timers: Timers, known: DeadlinesKnown
) -> None:
    timers.add(moves((None, 20_000)))
    known.look(1, 0, is_quiet=True)
    timers.add(moves((20_000, None)))
    known.look(1, 0, is_quiet=True)
    assert known.all
    timers.add(moves((None, 30_000)))
    known.forget()
    known.look(1, 0, is_quiet=True)
    assert not known.all
    assert timers.next_ms(0) is None


def test_without_a_clock_none_is_kept() -> None:
    timers = Timers()
    timers.add(moves((None, 20_000)))
    assert timers.next_ms(0) is None


def test_calls_of_the_function_tell_how_they_have_moved_the_timer(timers: Timers) -> None:
    """From the core to the driver, where the one who asks has the same object all the time."""
    driver = Counts(timers=timers)
    config = GroupConfig(group_initial_rebalance_delay_ms=0)
    joined = call(None, join(0, 15_000), watermark_ms=11_000, config=config)
    expired = call(joined.state, watermark_ms=25_000, config=config)
    assert (joined.members_were_due_ms, joined.members_due_ms) == (None, 25_000)
    # The group is looked through for old offsets later on, for which nobody waits.
    assert (expired.members_were_due_ms, expired.members_due_ms) == (25_000, None)
    assert expired.deadline_ms is not None

    for result, due_ms in [(joined, 25_000), (expired, None)]:
        task = CountsParam().addInPlace(CountsParam().zero(driver), result)
        CountsParam().addInPlace(driver, pickle.loads(pickle.dumps(task)))
        assert timers.next_ms(0) == due_ms
