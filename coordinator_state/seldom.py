"""A count of events that come often and are told seldom."""

from __future__ import annotations


class Seldom:
    """Counts what happens often and is logged at most once in `every_s` seconds."""

    def __init__(self, every_s: float = 10.0) -> None:
        self._every_s = every_s
        self._count = 0
        self._next_s: float | None = None

    def happened(self, now_s: float) -> int:
        """Return how often it has happened since it was logged, if it is to be logged now; otherwise 0."""
        self._count += 1
        if self._next_s is not None and now_s < self._next_s:
            return 0
        count, self._count, self._next_s = self._count, 0, now_s + self._every_s
        return count
