"""Names in a sentence for people, who read the first few of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def some_of(things: Sequence[T], most: int, name: Callable[[T], str] = str) -> str:
    """The names of the first `most` of these, and the number of the others: "a, b and 3 more"."""
    named = ", ".join(map(name, things[:most]))
    return named if len(things) <= most else f"{named} and {len(things) - most} more"
