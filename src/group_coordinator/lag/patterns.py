"""Names that are chosen by patterns: only * is special, and stands for any characters."""

from __future__ import annotations

__all__ = ["is_chosen", "matches"]


def is_chosen(name: str, patterns: str) -> bool:
    """Whether one of the patterns, with commas between, matches the name."""
    return any(matches(name, each.strip()) for each in patterns.split(",") if each.strip())


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
