"""The error that ends a coordinator."""

from __future__ import annotations


class CoordinatorError(Exception):
    """The query did not start, or ended by itself; the message is one line. Starting again goes on there."""
