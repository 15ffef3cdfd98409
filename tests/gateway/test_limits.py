from __future__ import annotations

from collections.abc import Callable

import pytest

from group_coordinator.gateway.limits import Budget, Pending, Seldom, largest, longest


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


@pytest.mark.parametrize(("most", "most_bytes"), [(10, 1_000), (100, 50)])
def test_clients_may_ask_again_after_a_tenth_is_answered(most: int, most_bytes: int) -> None:
    changes: list[bool] = []
    pending = Pending(most, most_bytes, lambda: changes.append(pending.is_full))
    for _ in range(11):
        pending.add(12, 5)
    pending.remove(12, 5)
    assert (changes, pending.count, pending.bytes, pending.by_api[12]) == ([True], 10, 50, 10)
    pending.remove(12, 5)
    assert changes == [True, False]


def test_what_happens_often_is_logged_seldom_with_its_count() -> None:
    seldom = Seldom(every_s=10)
    assert [seldom.happened(at_s) for at_s in (100, 101, 109, 110, 111, 120)] == [1, 0, 0, 3, 0, 2]
