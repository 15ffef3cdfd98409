"""Names in a sentence for people, who read the first few of many."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def some_of(names: Sequence[str], most: int) -> str:
    """The first `most` of these names, and the number of the others: "a, b and 3 more"."""
    named = ", ".join(names[:most])
    return named if len(names) <= most else f"{named} and {len(names) - most} more"
