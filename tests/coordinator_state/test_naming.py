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
