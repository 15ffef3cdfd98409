"""The turn of a coordinator, as a test says it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Turn", "yes"]


def yes() -> bool:
    """It is this one's turn."""
    return True


class Turn:
    """Nobody's, but `during` a context."""

    def __init__(self) -> None:
        self._is_active: Callable[[], bool] = bool

    def is_active(self) -> bool:
        """Whether this is the active coordinator."""
        return self._is_active()

    @contextmanager
    def during(self, is_active: Callable[[], bool] = yes) -> Iterator[None]:
        """While the context is open, ask that function."""
        self._is_active = is_active
        try:
            yield
        finally:
            self._is_active = bool
