"""The error that ends `observe`."""

from __future__ import annotations

__all__ = ["ObserveError"]


class ObserveError(Exception):
    """The query did not start, or ended by itself; the message is one line. Starting again goes on there."""
