from __future__ import annotations

from collections.abc import Callable

import pytest

from group_coordinator.coordinator_state.seldom import Seldom
from group_coordinator.gateway.limits import Budget, Holding, Pending, Rate, bytes_kept, largest, longest


class Connection:
    def __init__(self, name: str, gone: list[str]) -> None:
        self.name, self._gone = name, gone

    def abort(self, reason: str) -> None:
        self._gone.append(f"{self.name}: {reason}")


@pytest.mark.parametrize(
    ("chosen", "held", "gone", "total"),
    [
        (longest, "a60 b40", "", 100),
        (longest, "a60 b41", "a", 41),
        (longest, "a60 b30 a70 c101", "abc", 0),
        # What is whole counts no more, and the next request is a new one.
        (longest, "a60 b30 a0 a60 b41", "b", 60),
        (longest, "a0 a0", "", 0),
        (largest, "a20 b60 c20 a21", "b", 41),
        (largest, "a20 b60 c20 b10 c71", "c", 30),
        (largest, "a50 b200", "b", 50),
    ],
)
def test_connections_go_that_keep_too_much_together(
    chosen: Callable[[dict[Connection, int]], Connection],
    held: str,
    gone: str,
    total: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    went: list[str] = []
    connections = {name: Connection(name, went) for name in "abc"}
    budget = Budget("requests", "max.bytes", 100, chosen)
    for whose, *count in held.split():
        budget.hold(connections[whose], int("".join(count)), 0)
    assert went == [f"{name}: requests" for name in gone]
    assert budget.total == total
    told = ["1 connections are closed: requests are more than max.bytes (100)"]
    assert caplog.messages == (told if gone else []), "the first at once, and others within ten seconds not"


def test_what_ends_is_held_no_more() -> None:
    went: list[str] = []
    budget = Budget("requests", "max.bytes", 100, longest)
    first = Connection("a", went)
    budget.hold(first, 100, 0)
    budget.ends(first)
    budget.ends(Connection("nobody", went))
    budget.hold(Connection("b", went), 100, 0)
    assert went == []


class Asking:
    """A connection of which requests wait."""

    def __init__(self, pending: Pending, holding: Holding | None = None) -> None:
        self._pending, self.holding = pending, holding or Holding()
        self.may_ask = True

    def control(self) -> None:
        self.may_ask = self._pending.may_ask(self, self.holding)

    def ask_as_long_as_it_may(self, size: int = 1) -> int:
        before = self.holding.count
        while self.may_ask:
            self._pending.add(self.holding, 12, size)
            self.control()
        return self.holding.count - before

    def is_answered(self, count: int, size: int = 1) -> None:
        for _ in range(count):
            self._pending.remove(self.holding, 12, size)
        self.control()


@pytest.mark.parametrize(("most", "most_bytes", "size"), [(1_000, 10**9, 1), (10**9, 1_000_000, 1_000)])
def test_who_holds_as_much_as_is_free_may_ask_for_no_more(most: int, most_bytes: int, size: int) -> None:
    stopped: list[Asking] = []
    pending = Pending(most, most_bytes, stopped.append)
    first, second, third = (Asking(pending) for _ in range(3))
    assert first.ask_as_long_as_it_may(size) == 500
    assert second.ask_as_long_as_it_may(size) == 250, "one that takes all it can leaves room for others"
    assert third.ask_as_long_as_it_may(size) == 125
    assert (stopped, list(pending.stopped)) == ([first, second, third], [first, second, third])
    assert (pending.count, pending.by_api[12]) == (875, 875)
    third.is_answered(15, size)
    assert third.may_ask
    assert not second.may_ask
    first.is_answered(300, size)
    assert second.may_ask, "all are looked at once more is free"
    assert not pending.stopped


def test_the_clients_of_a_user_have_one_share() -> None:
    pending = Pending(1_000, 10**9, lambda _connection: None)
    user = Holding()
    first, second, other = Asking(pending, user), Asking(pending, user), Asking(pending)
    assert first.ask_as_long_as_it_may() == 500
    second.control()
    other.control()
    assert (second.may_ask, other.may_ask) == (False, True)
    first.is_answered(500)
    assert second.may_ask, "when nothing waits everybody may ask"


def test_a_connection_that_is_stopped_is_told_of_once() -> None:
    stopped: list[Asking] = []
    pending = Pending(2, 10, stopped.append)
    one = Asking(pending)
    one.ask_as_long_as_it_may()
    one.control()
    assert stopped == [one]


def test_a_rate_lets_a_second_s_worth_come_at_once() -> None:
    rate = Rate(10)
    assert [rate.take(100) for _ in range(11)] == pytest.approx([0] * 9 + [0.1, 0.2])
    assert rate.wait_s(100.05) == pytest.approx(0.15)
    assert rate.take(101.1) == 0
    assert rate.is_used(101.1)
    assert not rate.is_used(110)
    assert [Rate(0).take(100) for _ in range(3)] == [0] * 3, "any number"


def test_what_a_request_takes_grows_with_its_bytes_and_its_elements() -> None:
    assert bytes_kept(0, 0) < bytes_kept(1, 0) < bytes_kept(1, 1)


def test_what_happens_often_is_logged_seldom_with_its_count() -> None:
    seldom = Seldom(every_s=10)
    assert [seldom.happened(at_s) for at_s in (100, 101, 109, 110, 111, 120)] == [1, 0, 0, 3, 0, 2]
