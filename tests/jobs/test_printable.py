from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.jobs.printable import printable, printable_json, printable_label, printable_name

# What names may have in them to pass for others.
PIECES = st.sampled_from(
    [
        *"abo \\xu20n",
        "\\x1b",
        "\x1b",
        "\n",
        "\u200b",
        "\u202e",
        "\u0301",
        "\u043e",
        "\u00e9",
        "\ufe0f",
        "\U000e0041",
    ]
)
NAMES = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=8)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("orders", "orders"),
        ("grüß 日本 🙂 한국 ไม้ שָׁלוֹם क्षि", "grüß 日本 🙂 한국 ไม้ שָׁלוֹם क्षि"),
        ("оплата-v2", "оплата-v2"),
        ("or\x1b[0m\x00\x9b\x7f", r"or\x1b[0m\x00\x9b\x7f"),
        ("a\r\nb\tc\u2028", r"a\r\nb\tc\u2028"),
        # Nobody sees these.
        (
            "o\u200br\u2060d\ufeffe\u00adr\u3164s\ufe0f\u2800",
            r"o\u200br\u2060d\ufeffe\xadr\u3164s\ufe0f\u2800",
        ),
        ("\U000e0041x", r"\U000e0041x"),
        (" a  b ", r"\x20a  b\x20"),
        ("a\u00a0b\u3000", r"a\xa0b\u3000"),
        # These turn what follows.
        ("\u202egnirts\u2069\u061c\u200f", r"\u202egnirts\u2069\u061c\u200f"),
        # These look like others.
        ("\u043erders \u03bfrders", r"\u043erders \u03bfrders"),
        ("cafe\u0301 \u212b \uac00\u1100\u1161", r"cafe\u0301 \u212b " + "\uac00\u1100" + r"\u1161"),
        (r"a\x1b \u200b \n \\ c:\d", r"a\\x1b \\u200b \\n \\\\ c:\d"),
        # No more accents than a language has.
        ("o" + "\u0330" * 5, "o" + "\u0330" * 3 + r"\u0330\u0330"),
        ("\u0330o", r"\u0330o"),
        ("\ud800\ue000\uffff", r"\ud800\ue000\uffff"),
    ],
)
def test_a_name_shows_all_that_is_in_it(name: str, shown: str) -> None:
    assert printable_name(name) == shown


@given(NAMES, NAMES)
def test_no_two_names_look_the_same(one: str, other: str) -> None:
    shown = printable_name(one)
    assert (shown == printable_name(other)) is (one == other)
    assert unicodedata.is_normalized("NFC", shown)
    assert shown.isprintable()


@given(NAMES)
def test_an_escape_stays_one(name: str) -> None:
    assert printable_label(printable_label(name)) == printable_label(name)


@given(NAMES)
def test_json_stays_the_same_json(name: str) -> None:
    document = printable_json(json.dumps({name: name}, ensure_ascii=False, indent=1))
    assert json.loads(document) == {name: name}
    assert document.replace("\n", "").isprintable()


def test_lines_and_columns_of_a_text_stay() -> None:
    assert printable("a\tb\r\nc\x1b\rd") == "a\tb\nc\\x1b\\rd"
