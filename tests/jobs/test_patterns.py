"""Only * is special in a pattern."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.jobs.patterns import check, is_chosen, matches

TEXTS = st.text("ab*[]?\\n", max_size=8)


@given(TEXTS, TEXTS)
def test_a_pattern_matches_as_a_regular_expression_of_its_parts(name: str, pattern: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL)
    assert matches(name, pattern) == (expected is not None)


@pytest.mark.parametrize("name", ["orders[eu]", "what?", "a.b", "[!x]", "x|y", "back\\slash"])
def test_everything_else_is_itself(name: str) -> None:
    assert matches(name, name)
    assert is_chosen(name, f"other, {name} ,")
    assert not matches("orderse", name)
    assert not matches("whatX", name)


@pytest.mark.parametrize("patterns", ["*,!orders*", "!orders*,*", " ! orders , *", "bil*,!orders"])
def test_exceptions_win_wherever_they_stand(patterns: str) -> None:
    check(patterns)
    assert is_chosen("billing", patterns)
    assert not is_chosen("orders", patterns)


@pytest.mark.parametrize("patterns", ["", ",", "!orders", "!orders*, !*"])
def test_exceptions_alone_choose_nothing_and_are_refused(patterns: str) -> None:
    assert not is_chosen("billing", patterns)
    with pytest.raises(ValueError, match="no pattern but exceptions"):
        check(patterns)


def test_a_pattern_of_many_stars_takes_no_more_time() -> None:
    assert not matches("a" * 20_000, "*a" * 200 + "b")
