r"""Names that clients choose, as people see them: on a terminal, in a log and on a page.

Kafka and the coordinator take any characters in ids and topics. A terminal obeys some of them: an escape
sequence can clear the screen, and a carriage return can hide what stands before it. Others cannot be seen, or
look like another, so that two names would pass for one. For each of these there is an escape such as \x1b.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from enum import Enum
from functools import lru_cache

_MOST_MARKS = 3
"""So many accents on one letter are some language's. Hundreds would paint over the lines above."""
# Characters without ink that Python takes for letters and marks: Default_Ignorable_Code_Point and blanks.
_WITHOUT_INK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00016fe4\U000e0100-\U000e01ef]"
)
_LATIN = re.compile("[A-Za-z]")
_WORD = re.compile(r"[^\W\d_]+")
# Alphabets of which some letters look like Latin ones.
_LOOK_ALIKES = frozenset({"ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "GREEK", "LISU"})
_MAY_PASS_FOR_ESCAPE = re.compile(r"\\(?=[xuUnrt\\]|[^!-~])")
# The end of a member id, which is a UUID.
_RANDOM = re.compile(r"-([0-9a-f]{4})[0-9a-f]{4}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Nobody sees a blank at an end.
_HIDDEN_BLANK = re.compile(r"^ | $")


def printable(text: str) -> str:
    r"""Return `text` with an escape such as \x1b for what a terminal obeys, or nobody sees or tells apart.

    Line ends and tabs stay.
    """
    return _with_escapes(text.replace("\r\n", "\n"), _escape, keep="\n\t")


def printable_label(text: str) -> str:
    """Return `text` as `printable` does, in one line, so that it cannot pass for several rows.

    Text with such escapes comes back as it is.
    """
    return _with_escapes(text, _escape)


def printable_name(text: str) -> str:
    r"""Return a name so that it looks like no other, not even like one with a backslash and letters in it."""
    doubled = _MAY_PASS_FOR_ESCAPE.sub(r"\\\\", text)
    return printable_label(_HIDDEN_BLANK.sub(r"\\x20", doubled))


def printable_json(text: str, keep: str = "\n") -> str:
    r"""Return JSON, or a line of a log, that means the same, with an escape such as \u009b for each of these.

    All of them are in strings: between values JSON has blanks and line ends only, which `keep` names.
    """
    return _with_escapes(text, json_escape, keep)


def with_short_ids(text: str) -> str:
    """Return text with no more of the random part of each member id than tells two members apart."""
    return _RANDOM.sub(r"-\1…", text)


def json_escape(characters: str) -> str:
    r"""Return each character as JSON writes it: \u009b, and two of those beyond U+FFFF."""
    units = characters.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _with_escapes(text: str, escape: Callable[[str], str], keep: str = "") -> str:
    if text.isascii() and text.isprintable():
        return text
    # An escape has letters of its own, beside which others may look otherwise.
    while (shown := _escaped_once(text, escape, keep)) != text:
        text = shown
    return text


def _escaped_once(text: str, escape: Callable[[str], str], keep: str) -> str:
    shown, cluster, marks = list[str](), "", _MOST_MARKS
    for each in text:
        kind = _kind(each)
        marks = marks + 1 if kind is _Kind.MARK else 0
        # A letter and its marks. The last letter of an escape takes marks as well.
        cluster = cluster + each if kind in {_Kind.MARK, _Kind.JOINS} else each
        is_clear = each in keep or (
            kind is not _Kind.UNCLEAR
            and marks <= _MOST_MARKS
            and (kind is _Kind.PLAIN or unicodedata.is_normalized("NFC", cluster))
        )
        shown.append(each if is_clear else escape(each))
        if not is_clear:
            cluster = shown[-1][-1]
    return _WORD.sub(lambda word: _without_look_alikes(word[0], escape), "".join(shown))


class _Kind(Enum):
    """How a character looks. One that `JOINS` may be one character with the one before, as a `MARK` may."""

    PLAIN, UNCLEAR, MARK, JOINS = range(4)


@lru_cache(maxsize=4_096)
def _kind(each: str) -> _Kind:
    # One that is not normalized looks like another, as the Kelvin sign does.
    if not each.isprintable() or _WITHOUT_INK.match(each) or not unicodedata.is_normalized("NFC", each):
        return _Kind.UNCLEAR
    category = unicodedata.category(each)
    if category in {"Mn", "Me"}:
        return _Kind.MARK
    return _Kind.JOINS if category == "Mc" or "\u1161" <= each <= "\u11ff" else _Kind.PLAIN


def _without_look_alikes(word: str, escape: Callable[[str], str]) -> str:
    """A word without letters that make it look like one in Latin letters."""
    if word.isascii() or _LATIN.search(word) is None:
        return word
    alphabets = ((each, unicodedata.name(each, "").partition(" ")[0]) for each in word)
    return "".join(escape(each) if alphabet in _LOOK_ALIKES else each for each, alphabet in alphabets)
