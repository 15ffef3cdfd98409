"""Names that are chosen by patterns, with commas between: `*,!orders*` are all but those that begin so.

Only * is special, and stands for any characters. A pattern behind ! is an exception, wherever it stands.
"""

from __future__ import annotations

from functools import lru_cache

_NOT = "!"


def is_chosen(name: str, patterns: str) -> bool:
    """Whether one of the patterns matches the name, and no exception does."""
    chosen, exceptions = _split(patterns)
    return any(matches(name, it) for it in chosen) and not any(matches(name, it) for it in exceptions)


def check(patterns: str) -> None:
    """Raise ValueError for patterns that choose nothing, although they seem to choose all others."""
    if not _split(patterns)[0]:
        raise ValueError(f"{patterns!r} has no pattern but exceptions: *,!orders* are all but these")


@lru_cache(maxsize=16)
def _split(patterns: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The patterns, and the exceptions."""
    parts = [each.strip() for each in patterns.split(",") if each.strip()]
    return (
        tuple(each for each in parts if not each.startswith(_NOT)),
        tuple(each.removeprefix(_NOT).strip() for each in parts if each.startswith(_NOT)),
    )


def matches(name: str, pattern: str) -> bool:
    """Whether the whole name is as the pattern says. It takes no more time for many *."""
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    *between, last = others
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for each in between:
        found = name.find(each, at, end)
        if found < 0:
            return False
        at = found + len(each)
    return True
