"""Scripts as text: `stable 2, wait half, beat 1 generation=previous, leave also=1`.

A step is a verb, the number of its actor (0 if none is given), and fields of `Step`. `version=0..6` is a step
for each version. `also=1+empty@2` are others that leave: a member, and after the @ an instance. The number of
`formed`, `synced`, `stable` and their like is how many actors there are; actor 0 leads.
"""

from __future__ import annotations

import re
import shlex
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from tests.conformance.sequence import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["script", "statements"]

_VERBS: dict[str, dict[str, Any]] = {
    "join": {"api": "join"},
    # As a member of an old version, which is a member at once, without an id to be asked for first.
    "new": {"api": "join", "member": "empty", "version": 3},
    # As a static member that has just started.
    "restart": {"api": "join", "member": "empty", "instance": "own"},
    "sync": {"api": "sync"},
    "beat": {"api": "heartbeat"},
    "leave": {"api": "leave"},
    "commit": {"api": "commit"},
    # As no member.
    "simple": {"api": "commit", "member": "empty", "generation": "none"},
    "fetch": {"api": "fetch"},
    "delete_offsets": {"api": "delete_offsets"},
    # As is done after each step in version 5.
    "describe": {"api": "describe"},
    "delete_group": {"api": "delete_group"},
}

_IN_SHORT = {
    "listed_in_each_state": (
        "listed Empty, listed PreparingRebalance, listed CompletingRebalance, listed Stable, listed Dead"
    ),
    "told_in_each_way": "describe version=0..6, listed version=0..5, listed_in_each_state",
}


def script(text: str, **fields: str) -> tuple[Step, ...]:
    """Return the steps that `text` says, each with the `fields` unless it has others.

    Raises ValueError for a verb and msgspec.ValidationError for a field that there is not.
    """
    steps: list[Step] = []
    for verb, words, said in statements(text):
        steps += _steps(verb, words, fields | said)
    return tuple(steps)


def statements(text: str) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """What stands between the commas of `text`: a verb, the words behind it, and the fields."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=",")
    lexer.whitespace_split = True
    for is_comma, words in groupby(lexer, key=lambda word: word == ","):
        if not is_comma:
            verb, *rest = words
            said = dict(word.split("=", 1) for word in rest if "=" in word)
            yield verb, [word for word in rest if "=" not in word], said


def _steps(verb: str, words: list[str], fields: dict[str, str]) -> Iterator[Step]:
    if versions := re.fullmatch(r"(\d+)\.\.(\d+)", fields.get("version", "")):
        first, last = map(int, versions.groups())
        for version in range(first, last + 1):
            yield from _steps(verb, words, fields | {"version": str(version)})
        return
    match verb, words:
        case "wait", [pause]:
            yield Step(api="wait", pause=pause)
        case _, [] if verb in _IN_SHORT:
            yield from script(_IN_SHORT[verb], **fields)
        case "listed", states:
            yield _step({"api": "list", "states": states} | fields)
        case _, [] if verb in _VERBS:
            yield _step(_VERBS[verb] | fields)
        case _, [number] if verb in _VERBS:
            yield _step({"actor": number} | _VERBS[verb] | fields)
        case _, [count]:
            yield from _of_several(verb, int(count), fields)
        case _:
            raise ValueError(f"no step of a script: {verb} {' '.join(words)}")


def _of_several(verb: str, count: int, fields: dict[str, str]) -> Iterator[Step]:
    def each(verb: str, numbers: range) -> Iterator[Step]:
        return (_step({"actor": number} | _VERBS[verb] | fields) for number in numbers)

    match verb:
        case "formed" | "static_formed":  # in the sync phase
            yield from each("new" if verb == "formed" else "restart", range(count))
            if verb == "static_formed":
                fields = {"instance": "own"} | fields
            if count > 1:
                yield from each("join", range(1))
        case "formed_after_delay":  # the initial delay having been made longer once
            yield from each("new", range(count))
            yield from script("wait next, wait next")
        case "synced":
            yield from each("sync", range(count - 1, -1, -1))
        case "stable":  # with something to do
            yield from _of_several("formed", count, fields)
            yield from _of_several("synced", count, {})
        case "static":
            yield from _of_several("static_formed", count, fields)
            yield from _of_several("synced", count, {"instance": "own"})
        case _:
            raise ValueError(f"no verb of a script: {verb}")


def _step(fields: dict[str, Any]) -> Step:
    if "also" in fields:
        fields = fields | {"also": [_leaver(each) for each in fields["also"].split("+")]}
    return msgspec.convert(fields, Step, strict=False)


def _leaver(text: str) -> tuple[str, str | None]:
    member, _, instance = text.partition("@")
    return member, instance or None
