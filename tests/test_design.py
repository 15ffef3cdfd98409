"""docs/design.md names files, classes, functions and constants that are there."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.rooms import HOUSE, ROOMS, ROOT

DESIGN = (ROOT / "docs" / "design.md").read_text()
FILE = re.compile(r"[\w./-]+(?:\.(?:py|yml|txt|toml)|/)")
"""A file or, with a slash at its end, a folder."""
CODE = re.compile(r"(?:(?P<owner>[A-Z]\w+)\.)?(?P<name>\w+\(\)|_?[A-Z]\w+|(?<=\.)\w+)")
"""A class, a constant or a function, or one of a class. Settings, messages and commands look otherwise."""
FOLDERS = [*(HOUSE / room for room in ROOMS), ROOT / "tests"]
WORDS = 6_750


def code_of(markdown: str) -> list[str]:
    """What stands in backticks, without whole blocks of code."""
    markdown = re.sub(r"^```.*?^```$|^ {4}[^\n]*$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    return sorted(set(re.findall(r"`([^`\n]+)`", markdown)))


def files_of(markdown: str) -> list[str]:
    return [each for each in code_of(markdown) if FILE.fullmatch(each)]


def names_of(markdown: str) -> list[str]:
    return [each for each in code_of(markdown) if CODE.fullmatch(each)]


@cache
def source() -> str:
    return "\n".join(file.read_text() for folder in FOLDERS for file in sorted(folder.rglob("*.py")))


def is_there(name: str) -> bool:
    """Whether a file or folder is: by its path below the house or the top, or anywhere by its name alone."""
    if (HOUSE / name).exists() or (ROOT / name).exists():
        return True
    return "/" not in name.rstrip("/") and any(
        each.is_dir() == name.endswith("/") for folder in FOLDERS for each in folder.rglob(name.rstrip("/"))
    )


def is_defined(name: str) -> bool:
    """Whether a class, constant or function is; of `Owner.name` whether a class called so has it."""
    found = CODE.fullmatch(name)
    assert found is not None
    owner, word = found["owner"], found["name"]
    function = re.escape(word.removesuffix("()"))
    if owner is not None:
        bodies = re.findall(rf"^class {owner}\b.*?(?=^\S|\Z)", source(), re.DOTALL | re.MULTILINE)
        member = re.compile(rf"^    (?:def {function}\(|{function}(?:: | = ))", re.MULTILINE)
        return any(member.search(body) for body in bodies)
    if word.endswith("()"):
        definition = rf"^ *(?:async )?def {function}\("
    else:
        definition = rf"^(?:class {word}\b|{word}(?:: [^\n]+)? = )"
    return re.search(definition, source(), re.MULTILINE) is not None


def test_names_are_found() -> None:
    text = """
`client/member.py`, `step.py`, `classic/`, `Turn.emit()`, `Turn.place`, `Turn`s, `steps()`, `_LINES`,
`request_late`, `clock.max.gap.ms`, `applyInPandasWithState`, `MemberRemoved(`, `offsets/N`
```
`Nothing`
```
    `nothing()`
"""
    assert files_of(text) == ["classic/", "client/member.py", "step.py"]
    assert names_of(text) == ["Turn", "Turn.emit()", "Turn.place", "_LINES", "steps()"]


@pytest.mark.parametrize("name", ["streaming/nothing.py", "nothing.py", "nothing/", "client/classic/"])
def test_a_file_that_is_not_there_is_noticed(name: str) -> None:
    assert not is_there(name)


@pytest.mark.parametrize(
    "name", ["Nothings", "nobody_calls_it()", "_NOTHING_AT_ALL", "Turn.nothing()", "Nothings.emit()"]
)
def test_a_name_that_is_not_there_is_noticed(name: str) -> None:
    assert not is_defined(name)


@pytest.mark.parametrize("name", files_of(DESIGN))
def test_each_file_is_there(name: str) -> None:
    assert is_there(name)


@pytest.mark.parametrize("name", names_of(DESIGN))
def test_each_name_is_there(name: str) -> None:
    assert is_defined(name)


def test_it_is_short_enough_to_be_read() -> None:
    assert len(DESIGN.split()) <= WORDS
    glossary = DESIGN.partition("\n## Glossary\n")[2]
    assert len(re.findall(r"^\| (?!word \|)\w", glossary, re.MULTILINE)) <= 45
