"""Patterns of topics in RE2's syntax."""

from __future__ import annotations

import time

import pytest

from group_coordinator.jobs.topic_patterns import PatternError, Renewal, matcher_of


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders-.*", ["orders-", "orders-1"], ["orders", "my-orders-1", "orders-1\n"]),
        ("^orders.*$", ["orders", "orders-1"], ["my-orders"]),
        ("(a|b)c?", ["a", "ac", "b"], ["c", "abc"]),
        ("(?i)ORDERS", ["orders"], ["orders-"]),
        (r"\pL+", ["abc"], ["a1"]),
        (r"\Qa.b\E", ["a.b"], ["aab"]),
        (".*(?:orders).*", ["my-orders-1"], ["order"]),
        ("", [""], ["a"]),
    ],
)
def test_the_whole_name_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    matches = matcher_of(pattern)
    assert [name for name in (*matching, *others) if matches(name)] == matching


@pytest.mark.parametrize(
    "pattern",
    ["a(", "[", "*", "(?=a)", r"(a)\1", "a{1001}", "((a{1000}){1000}){1000}", "\ud800"],
)
def test_a_pattern_that_does_not_compile_is_told_in_kafkas_words(pattern: str) -> None:
    with pytest.raises(PatternError, match="is not a valid regular expression: ") as caught:
        matcher_of(pattern)
    assert str(caught.value).encode(), "a client is told so"


@pytest.mark.parametrize("pattern", ["(" + "a" * 9_999, "[" + "\N{EARTH GLOBE EUROPE-AFRICA}" * 2_499])
def test_a_message_does_not_repeat_all_of_a_long_pattern(pattern: str) -> None:
    """A text of Kafka's has 32,767 bytes at most."""
    with pytest.raises(PatternError) as caught:
        matcher_of(pattern)
    assert str(caught.value).startswith(f"SubscribedTopicRegex `{pattern[:1_000]}...` is not a valid ")
    assert len(str(caught.value).encode()) < 10_000


def test_a_pattern_that_is_large_takes_too_much_memory() -> None:
    with pytest.raises(PatternError, match="too large"):
        matcher_of("(a{999}b)" * 1_000)


@pytest.mark.parametrize("pattern", ["(.*){1000}", "(.?){1000}", "((.{0,30}){0,30})"])
def test_a_short_pattern_with_very_many_instructions_is_refused(pattern: str) -> None:
    """Each letter of each name would take as many steps."""
    with pytest.raises(PatternError, match=r"it takes \d+ instructions of RE2, and 2000 are allowed\.$"):
        matcher_of(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\pL+-\d+",
        "|".join(f"orders-of-{number * 7919 % 997}" for number in range(400)),
        # If RE2 told what the group matches, it would take 2,104 instructions.
        "(.*){210}",
    ],
)
def test_a_pattern_that_people_write_has_few_instructions(pattern: str) -> None:
    assert not matcher_of(pattern)("?\n")


def test_no_pattern_takes_more_time_than_the_name_has_letters() -> None:
    """It would take a program that goes back and forth longer than the universe is old."""
    matches = matcher_of("(a*)*(a|aa)*(a?){200}a{200}b")
    begin_s = time.perf_counter()
    assert not matches("a" * 249)
    assert time.perf_counter() - begin_s < 1


# -- topics that come and go ---------------------------------------------------------------------------


def test_what_a_group_knows_is_no_news() -> None:
    renewal = Renewal()
    assert renewal.news(["a", "b"], {"a", "b"}) is None
    assert renewal.news([], set()) is None


def test_what_nobody_has_resolved_is_news_even_if_nothing_matches() -> None:
    assert Renewal().news(None, []) == []
    assert Renewal().news(None, ["b", "a"]) == ["a", "b"]


def test_a_new_topic_is_news_at_once() -> None:
    renewal = Renewal()
    assert renewal.news(["b"], ["b", "a"]) == ["a", "b"]
    # Until the group follows.
    assert renewal.news(["b"], ["b", "a"]) == ["a", "b"]
    assert renewal.news(["a", "b"], ["b", "a"]) is None


def test_a_topic_goes_if_it_is_missing_in_two_looks() -> None:
    renewal = Renewal()
    assert renewal.news(["a", "b"], ["a"]) is None
    assert renewal.news(["a", "b"], ["a"]) == ["a"]
    assert renewal.news(["a"], ["a"]) is None


def test_a_topic_that_one_broker_does_not_know_stays() -> None:
    renewal = Renewal()
    assert renewal.news(["a", "b"], ["a"]) is None
    assert renewal.news(["a", "b"], ["a", "b"]) is None
    assert renewal.news(["a", "b"], ["a", "c"]) == ["a", "b", "c"]
    assert renewal.news(["a", "b", "c"], ["a", "c"]) == ["a", "c"]
