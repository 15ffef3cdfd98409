"""Turns: the event loop's time, which all clients share.

A request is mostly read when it comes. After some milliseconds of reading the turn is over, and the clients
that come then wait for the next one. In it those are read first that have taken least of late, and that have
sent least. So a client that sends much, or requests that are costly to read, waits for those that do not.

    turns.are_free            whether what has come may be read at once
    turns.wait(rank_s, go)    `go` is called in a later turn, the lowest rank first
    turns.took(seconds)       so long was read

Between two turns the loop looks for what else has come, so that it can be ranked.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Account", "Turns"]

_TURN_S = 0.01
_FREE = 0.02
"""The part of the event loop's time that is nobody's fault."""


class Account:
    """The event loop's time that somebody has taken of late, in seconds.

    A part is forgotten as time passes: who takes less than that has taken nothing.
    """

    __slots__ = ("_at_s", "_taken_s")

    def __init__(self) -> None:
        self._at_s = self._taken_s = 0.0

    def taken_s(self, now_s: float) -> float:
        """Return how much it is now."""
        return max(0.0, self._taken_s - _FREE * (now_s - self._at_s))

    def add(self, seconds: float, now_s: float) -> None:
        """Take so much more."""
        self._taken_s, self._at_s = self.taken_s(now_s) + seconds, now_s


class Turns:
    """The turns of one event loop. `soon` calls a function in the next round of the loop."""

    def __init__(self, soon: Callable[[Callable[[], None]], Any]) -> None:
        self._soon = soon
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._taken_s = 0.0
        self._is_over = False
        """Whether the next turn is on its way."""

    @property
    def are_free(self) -> bool:
        """Whether there is time left in this turn, and nobody waits."""
        return not self._is_over

    def took(self, seconds: float) -> None:
        """Take so much of this turn."""
        self._taken_s += seconds
        if self._taken_s >= _TURN_S:
            self._end()

    def wait(self, rank_s: float, go: Callable[[], None]) -> None:
        """Call `go` in a later turn."""
        heappush(self._waiting, (rank_s, next(self._numbers), go))
        self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            # The round after the next one: before it the loop takes in what has come meanwhile.
            self._soon(lambda: self._soon(self._begin))

    def _begin(self) -> None:
        self._taken_s, self._is_over = 0.0, False
        waiting, most_s = len(self._waiting), float("inf")
        # A client that has taken much does not hold up the answers to those before it.
        while self._waiting and waiting and not self._is_over and self._waiting[0][0] <= most_s:
            waiting -= 1
            rank_s, _, go = heappop(self._waiting)
            most_s = rank_s + _TURN_S
            go()
        if self._waiting:
            self._end()
