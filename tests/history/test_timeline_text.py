from __future__ import annotations

from datetime import timedelta

import pytest

from group_coordinator.history.rows import time_of
from group_coordinator.history.timeline.text import (
    clean,
    counted,
    escape,
    fit,
    number_range,
    owned,
    short_id,
    span_of_time,
    width,
    writer,
)
from tests.history.stories import BEGIN_MS

T0 = time_of(BEGIN_MS)


@pytest.mark.parametrize(
    ("partitions", "labels"),
    [
        ([("orders", 0)], ["orders 0", "1 partition", "1"]),
        (
            [("orders", 7), *(("orders", each) for each in range(4))],
            ["orders 0-3,7", "5 partitions", "0-3,7", "5"],
        ),
        ([("b", 1), ("a", 2), ("b", 0)], ["a 2; b 0-1", "3 partitions", "3"]),
        ([("a\n<b>", 1)], [r"a\n<b> 1", "1 partition", "1"]),
        ([(None, None)], ["unreadable", "?", "?"]),
    ],
)
def test_partitions_in_words(partitions: list[tuple[str | None, int | None]], labels: list[str]) -> None:
    assert owned(partitions, units=False) == labels


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["eu", "us", "asia"], "asia, eu, us"),
        (["unit-2", "unit-0", "unit-1", "unit-10"], "unit-{0-2,10}"),
        (["unit-3"], "unit-3"),
        (["shard-00", "shard-01"], "shard-0{0-1}"),
        (["1", "2", "x"], "x, {1-2}"),
        (["x9999999999", "x9999999998"], "x9{999999998-999999999}"),
    ],
)
def test_units_in_words(names: list[str], label: str) -> None:
    assert owned([(name, 0) for name in names], units=True)[0] == label


def test_what_cannot_be_shown_is_an_escape() -> None:
    assert clean("a\x00b\x1bc") == r"a\x00b\x1bc"
    assert clean("one\n\ttwo\u2028three") == r"one\n\ttwo\u2028three"
    assert clean("\u202egnirts\u2069") == r"\u202egnirts\u2069"
    assert clean("\ud800\uffff") == r"\ud800\uffff"
    assert clean("grün 漢字 🙂") == "grün 漢字 🙂"
    assert clean("x" * 500) == "x" * 399 + "…"


def test_escaping() -> None:
    assert escape("<a href=\"x\" id='y'>&") == "&lt;a href=&quot;x&quot; id=&#x27;y&#x27;&gt;&amp;"


def test_as_much_as_there_is_room_for() -> None:
    assert fit("orders 0-3", width("orders 0-3", 10), 10) == "orders 0-3"
    assert fit("orders 0-3", width("orders", 10), 10) == "order…"
    assert fit("漢字漢字", width("orders", 10), 10) == "漢字…"
    assert fit("orders", 3, 10) == ""


@pytest.mark.parametrize(
    ("member_id", "names", "short"),
    [
        ("c1-0f3ab812-77", ("c1",), "0f3ab812…"),
        ("web-1-0f3ab812-77", ("web-1", "c1"), "0f3ab812…"),
        ("c1-0f3ab812-77", (None, "c1"), "0f3ab812…"),
        ("mine", ("c1",), "mine"),
    ],
)
def test_short_ids(member_id: str, names: tuple[str | None, ...], short: str) -> None:
    assert short_id(member_id, *names) == short


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (230, "230 ms"),
        (1_230, "1.23 s"),
        (9_999, "9 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (250_000, "4 min 10 s"),
        (3_600_000, "1 h"),
        (3_605_000, "1 h"),
        (11_100_000, "3 h 5 min"),
        (187_200_000, "2 d 4 h"),
    ],
)
def test_spans_of_time(ms: int, text: str) -> None:
    assert span_of_time(timedelta(milliseconds=ms)) == text


def test_times_have_the_day_if_there_is_more_than_one() -> None:
    at = T0 + timedelta(hours=14, milliseconds=5)

    assert writer(T0, T0 + timedelta(hours=20))(at) == "14:00:00.005"
    assert writer(T0, T0 + timedelta(days=1))(at) == f"{T0:%Y-%m-%d} 14:00:00.005"
    # What began before the first day.
    assert writer(T0, T0 + timedelta(hours=1))(T0 - timedelta(hours=1)).endswith(" 23:00:00.000")


def test_counts() -> None:
    assert [counted(each, "member") for each in (0, 1, 1_000)] == ["0 members", "1 member", "1,000 members"]
    assert number_range([5, 6, 9]) == "5 - 9"
    assert number_range([]) == "?"
