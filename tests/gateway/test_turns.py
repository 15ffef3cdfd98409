from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from group_coordinator.gateway.turns import Account, Turns


class Loop:
    """An event loop: what comes soon comes in the next round, before what sockets have brought."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], None]] = deque()
        self.turns = Turns(self._soon.append)

    def round(self, *arrived: Callable[[], None]) -> None:
        due = [*self._soon, *arrived]
        self._soon.clear()
        for each in due:
            each()

    @property
    def is_idle(self) -> bool:
        return not self._soon


def test_a_turn_is_over_after_some_milliseconds_and_the_next_one_is_free() -> None:
    loop = Loop()
    loop.turns.took(0.009)
    assert loop.turns.are_free
    loop.turns.took(0.002)
    assert not loop.turns.are_free
    loop.round()
    loop.round()
    assert loop.turns.are_free
    assert loop.is_idle


def test_who_has_taken_least_comes_first_also_if_it_comes_later() -> None:
    loop, came = Loop(), list[str]()

    def work(name: str, seconds: float) -> Callable[[], None]:
        def go() -> None:
            came.append(name)
            loop.turns.took(seconds)

        return go

    loop.turns.took(1)
    for number in range(3):
        loop.turns.wait(0.5, work(f"heavy {number}", 0.1))
    loop.round()
    loop.round(lambda: loop.turns.wait(0, work("innocent", 0.0001)))
    assert came == ["heavy 0"], "one of them is a turn"
    loop.round()
    loop.round()
    assert came == ["heavy 0", "innocent"], "it is ranked before the next one, which does not hold it up"
    loop.round()
    loop.round()
    assert came == ["heavy 0", "innocent", "heavy 1"]
    for _ in range(4):
        loop.round()
    assert came[-1] == "heavy 2"
    assert loop.turns.are_free
    assert loop.is_idle


def test_who_waits_again_does_not_have_the_turn_for_ever() -> None:
    loop, went = Loop(), list[int]()

    def again() -> None:
        went.append(1)
        loop.turns.wait(0, again)

    loop.turns.wait(0, again)
    for rounds in (2, 4, 6):
        loop.round()
        loop.round()
        assert len(went) == rounds / 2


def test_an_account_forgets_a_fiftieth_of_the_time_that_passes() -> None:
    account = Account()
    account.add(1, 100)
    assert account.taken_s(100) == 1
    assert account.taken_s(110) == pytest.approx(0.8)
    account.add(0.1, 110)
    assert account.taken_s(110) == pytest.approx(0.9)
    assert account.taken_s(1_000) == 0
