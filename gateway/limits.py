"""Limits: those of one connection, and of all clients together with their counts and rules."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["Limits", "Pending", "Seldom", "Unfinished"]

Whose = TypeVar("Whose", bound="Hashable")

_AGAIN = 0.9
"""Clients are read again below this part of the limit, and not again after each answer."""


class Limits:
    """The limits of one connection. Sizes in bytes, times in seconds."""

    local_frame = 1_000_000
    passed_frame = 100 * 1024 * 1024
    slots = 1_000
    unwritten = 256 * 1024
    held = 64 * 1024 * 1024
    """Of responses that wait for one before them, such as that to a join."""
    first_frame_s = 30.0
    """Until a client has sent its first request."""
    local_frame_s = 60.0
    """Until a request of a group that has begun is whole, however steadily its bytes come."""
    idle_s = 600.0
    """As `connections.max.idle.ms` of a broker."""
    keep_alive_s = 180.0
    """Until a silent broker is asked for a sign of life, where a login would be lost with it."""


class Unfinished(Generic[Whose]):
    """Bytes of requests that are kept until they are whole, by the connection that has begun them."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: dict[Whose, int] = {}
        """Those that began first come first."""
        self.total = 0

    def hold(self, whose: Whose, count: int) -> list[Whose]:
        """Note how much is kept for this one now. Returns those that have to go, and forgets what they hold.

        They are the ones that began first: an honest request is whole soon after it has begun.
        """
        if count == self._held.get(whose, 0):
            return []
        self.total += count - self._held.get(whose, 0)
        self._held[whose] = count
        if not count:
            del self._held[whose]
        gone = []
        while self.total > self._most:
            first = next(iter(self._held))
            self.total -= self._held.pop(first)
            gone.append(first)
        return gone

    def ends(self, whose: Whose) -> None:
        """Note that its request is whole: what is kept next is of another one."""
        self.total -= self._held.pop(whose, 0)


class Pending:
    """The number of requests that wait for their answers, and their size together.

    `on_change` is called when `is_full` has changed.
    """

    def __init__(self, most: int, most_bytes: int, on_change: Callable[[], None]) -> None:
        self._most, self._most_bytes, self._on_change = most, most_bytes, on_change
        self.by_api: defaultdict[int, int] = defaultdict(int)
        self.count = self.bytes = 0
        self.is_full = False
        """Whether no client may ask for more."""

    def add(self, api_key: int, size: int) -> None:
        """One more waits, of `size` bytes."""
        self.by_api[api_key] += 1
        self.count += 1
        self.bytes += size
        if not self.is_full and (self.count >= self._most or self.bytes >= self._most_bytes):
            self.is_full = True
            self._on_change()

    def remove(self, api_key: int, size: int) -> None:
        """One is answered."""
        self.by_api[api_key] -= 1
        self.count -= 1
        self.bytes -= size
        if self.is_full and self.count <= self._most * _AGAIN and self.bytes <= self._most_bytes * _AGAIN:
            self.is_full = False
            self._on_change()


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
