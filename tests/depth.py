"""How many cases the tests that draw them draw: `make verify` draws many more than `make test`."""

from __future__ import annotations

import os

__all__ = ["DEEP", "cases"]

DEEP = os.environ.get("DEPTH") == "deep"


def cases(quick: int, *, deep: int) -> int:
    """Return how many cases to draw."""
    return deep if DEEP else quick
