"""Names that clients choose, made safe for a terminal.

Kafka and the coordinator take any characters in ids and topics. A terminal obeys some of them: an escape
sequence can clear the screen, and a carriage return can hide what stands before it.
"""

from __future__ import annotations

import re

__all__ = ["json_of", "printable", "printable_cell", "printable_json"]

# Controls, which terminals obey, and marks that turn the direction of text.
_UNSAFE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")


def printable(text: str) -> str:
    r"""Return `text` with an escape such as \x1b for each character that a terminal would obey.

    Line ends and tabs stay.
    """
    return _UNSAFE.sub(lambda match: repr(match[0])[1:-1], text)


def printable_cell(text: str) -> str:
    """Return `text` as `printable` does, in one line, so that it cannot pass for several rows."""
    return printable(text).replace("\r\n", r"\r\n").replace("\n", r"\n").replace("\t", r"\t")


def printable_json(text: str) -> str:
    r"""Return JSON that means the same, with an escape such as \u009b for each such character.

    All of them are in strings: between values JSON has blanks and line ends only.
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def json_of(value: object, *, indent: int = 0) -> str:
    """Return `value` as JSON that is safe for a terminal; without an indent in one line."""
    import msgspec

    return printable_json(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode())
