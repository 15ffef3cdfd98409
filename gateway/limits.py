"""Limits: those of one connection, and of all clients together with their counts and rules."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Budget", "Limits", "Pending", "Seldom", "largest", "longest"]

log = logging.getLogger(__name__)


class _Connection(Protocol):
    def abort(self, reason: str) -> None:
        """End it at once."""


Whose = TypeVar("Whose", bound=_Connection)

_AGAIN = 0.9
"""Clients are read again below this part of the limit, and not again after each answer."""


class Limits:
    """The limits of one connection. Sizes in bytes, times in seconds."""

    local_frame = 1_000_000
    passed_frame = 100 * 1024 * 1024
    kept_frame = 4_096
    """Of a heartbeat whose bytes a connection keeps. A longer one is decoded each time."""
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


class Budget(Generic[Whose]):
    """Bytes that connections keep of one kind, and what becomes of a connection when all keep too many.

    `reason`: the kind, for which a connection is aborted. `setting`: the name of the limit `most_bytes`.
    `chosen` says which of those that keep something goes; they come in the order in which they began.
    """

    def __init__(
        self, reason: str, setting: str, most_bytes: int, chosen: Callable[[dict[Whose, int]], Whose]
    ) -> None:
        self.reason, self._setting = reason, setting
        self._most, self._chosen = most_bytes, chosen
        self._held: dict[Whose, int] = {}
        self._aborted = Seldom()
        self.total = 0

    def hold(self, whose: Whose, count: int, now_s: float) -> None:
        """Note how much is kept for this one now. Aborts connections until the rest is within the limit."""
        if count == self._held.get(whose, 0):
            return
        self.total += count - self._held.get(whose, 0)
        self._held[whose] = count
        if not count:
            del self._held[whose]
        while self.total > self._most:
            self._abort(self._chosen(self._held), now_s)

    def ends(self, whose: Whose) -> None:
        """Note that nothing is kept for it any more; what it keeps next is new."""
        self.total -= self._held.pop(whose, 0)

    def _abort(self, whose: Whose, now_s: float) -> None:
        self.ends(whose)
        if happened := self._aborted.happened(now_s):
            log.warning(
                "%s connections are closed: %s are more than %s (%s)",
                happened,
                self.reason,
                self._setting,
                self._most,
            )
        whose.abort(self.reason)


def longest(held: dict[Whose, int]) -> Whose:
    """Choose the connection that began first: an honest request is whole soon after it has begun."""
    return next(iter(held))


def largest(held: dict[Whose, int]) -> Whose:
    """Choose the connection that keeps most: one that reads keeps little."""
    return max(held, key=held.__getitem__)


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
