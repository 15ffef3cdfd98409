from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.streaming.log_time import LogTime, Moment

DIFFER_MS = 3_000
WALL_MS = 1_800_000_000_000
INTERVAL_MS = 500
HOUR_MS = 3_600_000


class Machine:
    """This machine and the broker of the ticks. Each clock is so much ahead of the time that is right."""

    def __init__(self, broker_ms: float = 0, wall_ms: float = 0, reached_ms: int = 0) -> None:
        self.broker_ms = broker_ms
        self.wall_ms = wall_ms
        self.passed_ms = 0.0
        self.asleep_ms = 0.0
        self.log_time = LogTime(DIFFER_MS, reached_ms)
        self.tick()

    @property
    def right_ms(self) -> float:
        return WALL_MS + self.passed_ms

    @property
    def now(self) -> Moment:
        return Moment(self.passed_ms - self.asleep_ms, self.right_ms + self.wall_ms)

    def tick(self, takes_ms: int = 10) -> int:
        """Append a tick half way between its being sent and known; return how far log time is off."""
        sent = self.now
        self.passed_ms += takes_ms / 2
        appended_ms = round(self.right_ms + self.broker_ms)
        self.passed_ms += takes_ms / 2
        self.log_time.appended(sent, appended_ms, self.now)
        return round(self.log_time.at(self.now) - self.right_ms)

    def ticks(self, for_ms: int) -> int:
        off_ms = 0
        for _ in range(for_ms // INTERVAL_MS):
            self.passed_ms += INTERVAL_MS - 10
            off_ms = self.tick()
        return off_ms


def test_it_is_the_brokers_time_as_long_as_clocks_differ_by_little() -> None:
    machine = Machine(broker_ms=2_000)
    assert machine.ticks(60_000) == pytest.approx(2_000, abs=10)
    assert not machine.log_time.broker_is_off


@pytest.mark.parametrize("jump_ms", [12_000, -12_000, HOUR_MS, -HOUR_MS])
def test_the_jump_of_a_broker_moves_nothing(jump_ms: int) -> None:
    machine = Machine()
    machine.broker_ms = jump_ms
    assert machine.ticks(HOUR_MS) == 0
    assert machine.log_time.broker_is_off
    assert machine.log_time.skew_ms == pytest.approx(jump_ms, abs=10)
    machine.broker_ms = 0
    assert machine.ticks(INTERVAL_MS) == 0
    assert not machine.log_time.broker_is_off


def test_a_jump_that_clocks_may_differ_by_is_followed_slowly() -> None:
    machine = Machine()
    machine.broker_ms = 2_000
    assert 90 <= machine.ticks(10_000) <= 100
    assert machine.ticks(HOUR_MS) == pytest.approx(2_000, abs=10)
    machine.broker_ms = 0
    assert 1_890 <= machine.ticks(10_000) <= 1_910


@pytest.mark.parametrize("jump_ms", [12_000, -12_000])
def test_the_wall_clock_alone_moves_nothing(jump_ms: int) -> None:
    machine = Machine()
    machine.wall_ms = jump_ms
    assert machine.ticks(60_000) == 0
    assert not machine.log_time.broker_is_off


def test_a_machine_that_slept_is_set_at_once() -> None:
    """Its monotonic clock has not gone on, as in a virtual machine that was moved."""
    machine = Machine()
    machine.passed_ms += HOUR_MS
    machine.asleep_ms = HOUR_MS
    assert abs(machine.ticks(INTERVAL_MS)) <= 10


def test_log_time_that_is_ahead_waits_and_never_goes_back() -> None:
    machine = Machine(reached_ms=WALL_MS + 60_000)
    assert machine.log_time.at(machine.now) >= WALL_MS + 60_000
    assert 59_890 <= machine.ticks(10_000) <= 59_910
    assert machine.log_time.broker_is_off
    assert machine.ticks(6_000_000) == pytest.approx(0, abs=10)


@pytest.mark.parametrize(
    ("broker_ms", "wall_ms", "off_ms"),
    [
        (HOUR_MS, 0, 0),
        (0, HOUR_MS, 0),
        (-HOUR_MS, 0, -HOUR_MS),
        (0, -HOUR_MS, -HOUR_MS),
        (HOUR_MS, HOUR_MS, HOUR_MS),
    ],
)
def test_it_begins_by_the_earlier_of_two_clocks(broker_ms: int, wall_ms: int, off_ms: int) -> None:
    assert Machine(broker_ms, wall_ms).ticks(INTERVAL_MS) == pytest.approx(off_ms, abs=20)


@pytest.mark.parametrize("takes_ms", [10, 2_500, 19_000])
def test_a_slow_broker_is_no_clock_that_is_off(takes_ms: int) -> None:
    machine = Machine()
    for _ in range(100):
        assert abs(machine.tick(takes_ms)) <= 0
    assert machine.log_time.skew_ms == 0


@given(
    reached_ms=st.integers(0, WALL_MS + HOUR_MS),
    ticks=st.lists(
        st.tuples(
            st.integers(INTERVAL_MS, 20_000), st.integers(0, 2_000), *[st.integers(-HOUR_MS, HOUR_MS)] * 2
        )
    ),
)
def test_it_never_goes_back_nor_faster_than_time(
    reached_ms: int, ticks: list[tuple[int, int, int, int]]
) -> None:
    machine = Machine(reached_ms=reached_ms)
    before_ms, before_right_ms = machine.log_time.at(machine.now), machine.right_ms
    assert before_ms >= reached_ms
    for waits_ms, takes_ms, machine.broker_ms, machine.wall_ms in ticks:
        machine.passed_ms += waits_ms
        machine.tick(takes_ms)
        at_ms, passed_ms = machine.log_time.at(machine.now), machine.right_ms - before_right_ms
        assert at_ms >= before_ms + passed_ms * 0.99 - 1
        agree = abs(machine.broker_ms - machine.wall_ms) <= DIFFER_MS + takes_ms
        assert agree or at_ms <= before_ms + passed_ms * 1.01 + 1
        before_ms, before_right_ms = at_ms, machine.right_ms
