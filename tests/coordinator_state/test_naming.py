"""Names in a sentence."""

from __future__ import annotations

import pytest

from group_coordinator.coordinator_state.naming import some_of


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], ""),
        (["a", "b"], "a, b"),
        (["a", "b", "c"], "a, b and 1 more"),
        (list("abcde"), "a, b and 3 more"),
    ],
)
def test_the_first_are_named_and_the_others_counted(names: list[str], told: str) -> None:
    assert some_of(names, 2) == told


def test_only_those_that_are_named_are_given_their_names() -> None:
    asked: list[int] = []

    def name(number: int) -> str:
        asked.append(number)
        return f"n{number}"

    assert some_of(range(1_000_000), 2, name) == "n0, n1 and 999998 more"
    assert asked == [0, 1]
