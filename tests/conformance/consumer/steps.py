"""Scripts as text: `group 2 names=ab, join 2, beat 0 owned=before, away 1, wait 600`.

A step is a verb, the number of its actor (0 if none is given), and fields of `Step`. `version=0..1` is a step
for each version. The number of `joined`, `beats`, `settled` and `group` is how many actors there are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from tests.conformance.consumer.sequence import APIS, Step
from tests.conformance.steps import statements

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["script"]

_VERBS: dict[str, dict[str, str]] = {
    **{api: {"api": api} for api in APIS if api != "wait"},
    "join": {"epoch": "0"},
    "leave": {"epoch": "-1"},
    # As a static member does that will be back.
    "away": {"epoch": "-2"},
    # As no member.
    "simple": {"api": "commit", "member": "", "instance": "none", "epoch": "-1"},
    "offsets": {"api": "fetch", "member": "null", "epoch": "-1", "parts": "all"},
}
_ROUNDS = 4
"""So often all send a heartbeat until nothing changes any more, however a group has begun."""


def script(text: str, **fields: str) -> tuple[Step, ...]:
    """Return the steps that `text` says, each with the `fields` unless it has others.

    Raises ValueError for a verb and msgspec.ValidationError for a field that there is not.
    """
    steps: list[Step] = []
    for verb, words, said in statements(text):
        steps += _steps(verb, words, fields | said)
    return tuple(steps)


def _steps(verb: str, words: list[str], fields: dict[str, str]) -> Iterator[Step]:
    if versions := re.fullmatch(r"(\d+)\.\.(\d+)", fields.get("version", "")):
        first, last = map(int, versions.groups())
        for version in range(first, last + 1):
            yield from _steps(verb, words, fields | {"version": str(version)})
        return
    match verb, words:
        case "wait", [pause]:
            yield Step(api="wait", pause=int(pause))
        case _, [] if verb in _VERBS:
            yield _step(_VERBS[verb] | fields)
        case _, [number] if verb in _VERBS:
            yield _step({"actor": number} | _VERBS[verb] | fields)
        case _, [count]:
            yield from _of_several(verb, int(count), fields)
        case _:
            raise ValueError(f"no step of a script: {verb} {' '.join(words)}")


def _of_several(verb: str, count: int, fields: dict[str, str]) -> Iterator[Step]:
    match verb:
        case "joined":
            for number in range(count):
                yield _step({"actor": str(number)} | _VERBS["join"] | fields)
        case "beats":
            for number in range(count):
                yield _step({"actor": str(number)} | _VERBS["beat"] | fields)
        case "settled":
            for _ in range(_ROUNDS):
                yield from _of_several("beats", count, fields)
        case "group":
            yield from _of_several("joined", count, fields)
            yield from _of_several("settled", count, {})
        case _:
            raise ValueError(f"no verb of a script: {verb}")


def _step(fields: dict[str, str]) -> Step:
    # Text that looks like a number stays text where a field is text.
    return msgspec.convert(fields, Step, strict=False)
