"""Scripts as text: `stable 2, wait half, beat 1 generation=previous, leave also=1`.

A step is a verb, the number of its actor (0 if none is given), and fields of the game's `Step`.
`version=0..6` is a step for each version. Other verbs are short for several steps, all with the fields that
are said.
"""

from __future__ import annotations

import re
import shlex
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["Language", "of_each", "scripts_in"]

_Step = TypeVar("_Step")


def of_each(verb: str, numbers: Iterable[int]) -> str:
    """The script in which each of these actors does the same."""
    return ", ".join(f"{verb} {number}" for number in numbers)


class Language(Generic[_Step]):
    """The words of a game's scripts.

    `verbs`: the fields of the step that a verb stands for, unless others are said. `in_short`: what a verb is
    short for, by the words behind it; a step after `just` does not get the fields that are said. `lists`:
    fields of several values, which a + stands between, and how each is read.
    """

    def __init__(
        self,
        step: type[_Step],
        verbs: Mapping[str, Mapping[str, Any]],
        in_short: Mapping[str, Callable[..., str]],
        lists: Mapping[str, Callable[[str], Any]] | None = None,
    ) -> None:
        self._step, self._verbs, self._in_short, self._lists = step, verbs, in_short, lists or {}

    def script(self, text: str, **fields: str) -> tuple[_Step, ...]:
        """Return the steps that `text` says, each with the `fields` unless it has others.

        Raises ValueError for a verb and msgspec.ValidationError for a field that there is not.
        """
        steps: list[_Step] = []
        for words, said in _statements(text):
            if words[0] == "just":
                steps += self._steps(words[1], words[2:], said)
            else:
                steps += self._steps(words[0], words[1:], fields | said)
        return tuple(steps)

    def _steps(self, verb: str, words: list[str], fields: dict[str, str]) -> Iterator[_Step]:
        if versions := re.fullmatch(r"(\d+)\.\.(\d+)", fields.get("version", "")):
            first, last = map(int, versions.groups())
            for version in range(first, last + 1):
                yield from self._steps(verb, words, fields | {"version": str(version)})
            return
        match verb, words:
            case "wait", [pause]:
                yield self._one({"api": "wait", "pause": pause})
            case _, [] if verb in self._verbs:
                yield self._one(self._verbs[verb] | fields)
            case _, [number] if verb in self._verbs:
                yield self._one({"actor": number} | self._verbs[verb] | fields)
            case _ if verb in self._in_short:
                yield from self.script(self._in_short[verb](*words), **fields)
            case _:
                raise ValueError(f"no step of a script: {verb} {' '.join(words)}")

    def _one(self, fields: Mapping[str, Any]) -> _Step:
        several = {
            name: [read(each) for each in fields[name].split("+")]
            for name, read in self._lists.items()
            if name in fields
        }
        # Text that looks like a number stays text where a field is text.
        return msgspec.convert({**fields, **several}, self._step, strict=False)


def _statements(text: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """What stands between the commas of `text`: a verb with the words behind it, and the fields."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=",")
    lexer.whitespace_split = True
    for is_comma, words in groupby(lexer, key=lambda word: word == ","):
        if not is_comma:
            told = list(words)
            said = dict(word.split("=", 1) for word in told if "=" in word)
            yield [word for word in told if "=" not in word], said


def scripts_in(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """Say setup, section, name and steps of each script that is told one by one."""
    setup = section = ""
    text = (folder / "scripts.txt").read_text(encoding="utf-8")
    for line in re.sub(r"\n +", " ", text).splitlines():
        if header := re.fullmatch(r"\[(\w+)\] (.+)", line):
            setup, section = header.groups()
        elif line and not line.startswith("#"):
            name, _, steps = line.partition(": ")
            yield setup, section, name, steps
