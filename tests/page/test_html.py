from __future__ import annotations

import re

from group_coordinator.page.html import field, link, page, said

LOOK_ALIKES = [
    "orders",
    "orders\u200b",
    "\u043erders",
    "orders ",
    "\u2060orders",
    "o\ufe0frders",
    "\u202eorders",
]


def test_names_that_look_the_same_are_told_apart() -> None:
    shown = [re.sub("<[^>]*>", "", link("/group", name, id=name)) for name in LOOK_ALIKES]
    assert len(set(shown)) == len(LOOK_ALIKES)
    assert all(each.isascii() for each in shown)


def test_titles_have_no_letters_that_nobody_sees() -> None:
    titles = [re.findall("<title>(.*)</title>", page(name, ""))[0] for name in LOOK_ALIKES]
    assert titles[:3] == [
        f"{each} · Group coordinator" for each in ("orders", r"orders\u200b", r"\u043erders")
    ]


def test_accents_without_end_do_not_paint_over_other_lines() -> None:
    assert said("o" + "\u0330" * 254).count("\u0330") == 3


def test_blanks_and_line_ends_are_seen() -> None:
    assert [said("a  b"), said(" a"), said("a\nb")] == ["a \u00a0b", r"\x20a", r"a\nb"]


def test_a_search_is_sent_as_it_was_typed() -> None:
    assert 'value="orders\u200b"' in field("Search", "q", "orders\u200b")
