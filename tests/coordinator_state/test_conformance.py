"""The list in tests/conformance/kafkas_tests.md has each of Kafka's tests, and names tests that exist."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.classic.scripted import PLAYED

TESTS = Path(__file__).parents[1]
DOCUMENT = (TESTS / "conformance" / "kafkas_tests.md").read_text(encoding="utf-8")

# How many tests Kafka has, at the commit that the document names; of the Java classes those that do not
# repeat a test of the Scala class before them.
KAFKAS = {
    "GroupCoordinatorTest": 163,
    "GroupMetadataTest": 58,
    "ClassicGroupTest": 16,
    "MemberMetadataTest": 6,
    "ClassicGroupMemberTest": 4,
    "GroupMetadataManagerTest": 59,
    "GroupMetadataManagerTest in Scala": 69,
    "OffsetMetadataManagerTest": 44,
    "OffsetExpirationConditionImplTest": 1,
    "Requests of consumer groups (4.2)": 36,
    "Members of consumer groups in GroupMetadataManagerTest (4.2)": 77,
    "ConsumerGroupTest and ConsumerGroupMemberTest (4.2)": 48,
    "Offsets of consumer groups in OffsetMetadataManagerTest (4.2)": 23,
}
KINDS = ["shown", "no meaning"]

CITED = re.compile(r"`((?:[a-z_]+/)?test_[a-z_]+\.py(?:::\w+)+)`")
SEQUENCE = re.compile(r"sequence `([^`]+)`")
SHOWN = re.compile(rf"(?:{CITED.pattern}|{SEQUENCE.pattern})(?:, (?:{CITED.pattern}|{SEQUENCE.pattern}))*")


class Row(NamedTuple):
    number: str
    name: str
    shows: str
    here: str


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def table(text: str) -> list[list[str]]:
    """The rows of the table in `text`, less its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [cells(line) for line in lines[2:]]


def read() -> tuple[list[list[str]], dict[str, list[Row]]]:
    """The figures, and the rows by Kafka's class."""
    head, *sections = re.split(r"^## ", DOCUMENT, flags=re.MULTILINE)
    return table(head), {
        section.splitlines()[0].strip(): [Row(*row) for row in table(section)] for section in sections
    }


FIGURES, ROWS = read()
ALL = [row for rows in ROWS.values() for row in rows]


def kind(row: Row) -> str:
    """What kind of row it is; empty if of none."""
    if re.fullmatch(r"no meaning: \S.*", row.here):
        return "no meaning"
    return "shown" if SHOWN.fullmatch(row.here) else ""


@cache
def names_in(file: str) -> set[str]:
    """The tests of a file, as `test_name` and `TestClass::test_name`."""
    (path,) = [TESTS / file] if "/" in file else (TESTS / "coordinator_state").rglob(file)
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return {name for name in found if name.split("::")[-1].startswith("test_")}


def test_every_test_of_kafkas_is_there():
    assert {name: len(rows) for name, rows in ROWS.items()} == KAFKAS


@pytest.mark.parametrize("section", KAFKAS)
def test_rows_are_numbered_and_no_test_of_kafkas_is_there_twice(section):
    rows = ROWS[section]
    assert [row.number for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
    assert [name for name, count in Counter(row.name for row in rows).items() if count > 1] == []
    assert [row.name for row in rows if not re.fullmatch(r"(test|static|should)\w+", row.name)] == []


def test_nothing_is_left_blank():
    assert [row for row in ALL if not all(row)] == []


def test_every_row_is_of_a_known_kind():
    assert [row for row in ALL if not kind(row)] == []


def test_every_test_that_is_named_exists():
    # Read from the whole text, so that none is passed over because of how it is written.
    named = CITED.findall(DOCUMENT)
    assert len(named) == DOCUMENT.count(".py::")
    missing = []
    for name in named:
        file, _, test = name.partition("::")
        if test not in names_in(file):
            missing.append(name)
    assert missing == []


def test_every_sequence_that_is_named_is_played():
    named = SEQUENCE.findall(DOCUMENT)
    assert len(named) == DOCUMENT.count("sequence `") > 0
    assert sorted(set(named) - PLAYED.keys()) == []


def test_figures_are_those_of_the_rows():
    counted = {name: Counter(map(kind, rows)) for name, rows in ROWS.items()}
    expected = [
        [f"`{name}`", *(str(counts[each]) for each in KINDS), str(counts.total())]
        for name, counts in counted.items()
    ]
    total = sum(counted.values(), Counter())
    expected.append(["all", *(str(total[each]) for each in KINDS), str(total.total())])
    assert FIGURES == expected
    heading = next(line for line in DOCUMENT.splitlines() if line.startswith("|"))
    assert cells(heading)[1:-1] == KINDS
