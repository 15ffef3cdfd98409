"""Lists that wait for what their client was told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from group_coordinator.gateway import unseen as module
from group_coordinator.gateway.unseen import Unseen


class Lists:
    """Lists by name, and which of them have been made."""

    def __init__(self) -> None:
        self.unseen = Unseen()
        self.made: list[str] = []

    def ask(self, name: str) -> None:
        self.unseen.wait(lambda: self.made.append(name))


@pytest.fixture
def lists() -> Lists:
    return Lists()


def test_a_list_waits_for_nothing_if_nothing_was_told(lists: Lists) -> None:
    lists.ask("a")
    lists.unseen.seen("g", 5)
    assert (lists.made, len(lists.unseen)) == (["a"], 0)


@pytest.mark.parametrize(("place", "is_made"), [(4, False), (None, False), (5, True), (6, True)])
def test_a_list_waits_for_a_picture_that_is_new_enough(
    lists: Lists, place: int | None, is_made: bool
) -> None:
    lists.unseen.told("g", 5, 0)
    lists.unseen.told("g", 5, 0)
    lists.ask("a")
    assert lists.made == []
    lists.unseen.seen("other", 9)
    lists.unseen.seen("g", place)
    assert (lists.made == ["a"], len(lists.unseen)) == (is_made, not is_made)


def test_a_list_does_not_wait_for_what_is_told_after_it(lists: Lists) -> None:
    lists.unseen.told("g", 5, 0)
    lists.ask("a")
    lists.unseen.told("g", 7, 0)
    lists.unseen.told("h", 1, 0)
    lists.ask("b")
    lists.unseen.seen("h", 1)
    assert lists.made == []
    lists.unseen.seen("g", 5)
    assert lists.made == ["a"]
    lists.unseen.seen("g", 7)
    assert (lists.made, len(lists.unseen), lists.unseen._numbers) == (["a", "b"], 0, {})


def test_a_later_picture_shows_all_that_came_before(lists: Lists) -> None:
    for place in (5, 6, 7):
        lists.unseen.told("g", place, 0)
    lists.ask("a")
    lists.unseen.seen("g", 7)
    assert (lists.made, len(lists.unseen)) == (["a"], 0)


def test_nobody_waits_for_long(lists: Lists) -> None:
    lists.unseen.told("g", 5, 10)
    lists.unseen.told("h", 5, 11)
    lists.ask("a")
    lists.unseen.expire(12.9)
    assert (lists.made, len(lists.unseen)) == ([], 1)
    lists.unseen.expire(13)
    assert (lists.made, len(lists.unseen), lists.unseen._numbers) == (["a"], 0, {})


def test_a_list_that_is_made_may_ask_for_another(lists: Lists) -> None:
    lists.unseen.told("g", 5, 0)
    again: Callable[[], None] = lambda: lists.unseen.wait(lambda: lists.made.append("b"))  # noqa: E731
    lists.unseen.wait(again)
    lists.unseen.seen("g", 5)
    assert lists.made == ["b"]


def test_what_is_waited_for_is_bounded(lists: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    lists.unseen.told("g0", 1, 0)
    lists.ask("a")
    for number in range(1, 5):
        lists.unseen.told(f"g{number}", 1, 0)
    assert (lists.made, len(lists.unseen), list(lists.unseen._numbers)) == (["a"], 2, ["g3", "g4"])
