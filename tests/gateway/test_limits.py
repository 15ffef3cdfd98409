from __future__ import annotations

import pytest

from group_coordinator.gateway.limits import Pending, Seldom, Unfinished


@pytest.mark.parametrize(
    ("held", "gone", "total"),
    [
        ([("a", 60), ("b", 40)], [], 100),
        ([("a", 60), ("b", 41)], ["a"], 41),
        ([("a", 60), ("b", 30), ("a", 70), ("c", 101)], ["a", "b", "c"], 0),
        # What is whole counts no more, and the next request is a new one.
        ([("a", 60), ("b", 30), ("a", 0), ("a", 60), ("b", 41)], ["b"], 60),
        ([("a", 0), ("a", 0)], [], 0),
    ],
)
def test_those_that_began_first_go_first(held: list[tuple[str, int]], gone: list[str], total: int) -> None:
    unfinished: Unfinished[str] = Unfinished(100)
    assert [each for whose, count in held for each in unfinished.hold(whose, count)] == gone
    assert unfinished.total == total


def test_what_ends_is_held_no_more() -> None:
    unfinished: Unfinished[str] = Unfinished(100)
    unfinished.hold("a", 100)
    unfinished.ends("a")
    unfinished.ends("nobody")
    assert unfinished.hold("b", 100) == []


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
