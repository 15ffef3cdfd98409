"""The text that the story is put into: places for all that is said, and pictures that are there."""

from __future__ import annotations

import re

import pytest

from tests.day_two.__main__ import BLOCK, TEXT, written

MOST_BYTES = 150_000
"""A picture in the repository."""


def test_a_run_renews_what_was_said_and_nothing_else() -> None:
    text = TEXT.read_text()
    names = [name for _, name, _ in BLOCK.findall(text)]
    assert len(names) == text.count("<!-- end -->") > 5
    said = {name: f"    what {name} says: \\1" for name in names}
    renewed = written(text, said)
    assert all(f"<!-- said: {name} -->\n\n{line}\n\n<!-- end -->" in renewed for name, line in said.items())
    assert BLOCK.sub("", renewed) == BLOCK.sub("", text)
    with pytest.raises(AssertionError):
        written(text, said | {"nowhere": "    in the text"})


def test_the_text_has_the_words_and_pictures_of_a_run() -> None:
    text = TEXT.read_text()
    said = re.findall(r"<!-- said: \w+ -->\n\n(.*?)\n\n<!-- end -->", text, re.DOTALL)
    assert all(line.startswith("    ") for block in said for line in block.splitlines() if line)
    pictures = re.findall(r"!\[.+\]\((.+)\)", text)
    assert len(pictures) == len(list((TEXT.parent / "images").glob("day-two-*"))) > 1
    assert all(0 < (TEXT.parent / each).stat().st_size < MOST_BYTES for each in pictures)
