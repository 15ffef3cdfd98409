"""Turns: the event loop's time, which all clients share.

Work for a client is mostly done when it comes: a request is read, an answer is written. After some
milliseconds of work the turn is over, and what comes then waits for the next one. In it those clients are
served first that have taken least of late, and that have sent least. So a client that sends much, or requests
that are costly, waits for those that do not. Those that have taken much are all the same, and the one that
has waited longest is first. Otherwise a client that was alone for a while would wait until all others have
taken as much, for longer than its request has time.

    turns.are_free                 whether what has come may be done at once
    turns.wait(whose, size, go)    `go` is called in a later turn, the lowest rank first
    turns.took(seconds)            so long was worked

Between two turns the loop looks for what else has come, so that it can be ranked.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from group_coordinator.gateway.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.parties import Guest, Party

_TURN_S = 0.01
_FREE = 0.02
"""The part of the event loop's time that is nobody's fault."""
_BYTE_S, _MOST_BYTES = 1e-6, 10_000
"""The event loop's time that a byte of a request may take, until that is known; and for how many at most."""


class Account:
    """The event loop's time that somebody has taken of late, in seconds.

    A part is forgotten as time passes: who takes less than that has taken nothing. `most_s`: the most that is
    remembered.
    """

    __slots__ = ("_at_s", "_most_s", "_taken_s")

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._at_s = self._taken_s = 0.0

    def taken_s(self, now_s: float) -> float:
        """Return how much it is now."""
        return max(0.0, self._taken_s - _FREE * (now_s - self._at_s))

    def add(self, seconds: float, now_s: float) -> None:
        """Take so much more."""
        self._taken_s, self._at_s = min(self.taken_s(now_s) + seconds, self._most_s), now_s


class _Queue:
    """What waits for the clients of one party, of which `one` is any.

    How much a party has taken counts when its turn comes, and not when somebody begins to wait. Otherwise
    those of its clients that have waited for long would be before one that has taken nothing.
    """

    __slots__ = ("one", "waiting")

    def __init__(self, one: Guest) -> None:
        self.one = one
        self.waiting: list[tuple[float, int, Callable[[], None]]] = []

    def rank_s(self, now_s: float) -> float:
        return self.one.together_s(now_s) + self.waiting[0][0]


class Turns:
    """The turns of one event loop. `soon` calls a function in the next round of the loop.

    `clock` tells seconds and does not go back.
    """

    def __init__(self, soon: Callable[[Callable[[], None]], Any], clock: Callable[[], float]) -> None:
        self._soon, self.clock = soon, clock
        self._queues: dict[Party | None, _Queue] = {}
        self._numbers = count()
        self._taken_s = 0.0
        self.are_free = True
        """Whether there is time left in this turn, and nobody waits. If not, the next one is on its way."""

    def took(self, seconds: float) -> None:
        """Take so much of this turn."""
        self._taken_s += seconds
        if self._taken_s >= _TURN_S:
            self._end()

    def wait(self, whose: Guest, size: int, go: Callable[[], None]) -> None:
        """Call `go` in a later turn. `size`: bytes that have come for it."""
        if (queue := self._queues.get(whose.party)) is None:
            queue = self._queues[whose.party] = _Queue(whose)
        own_s = min(whose.taken_s(self.clock()) + _BYTE_S * min(size, _MOST_BYTES), Limits.behind_s)
        heappush(queue.waiting, (own_s, next(self._numbers), go))
        self._end()

    def _end(self) -> None:
        if self.are_free:
            self.are_free = False
            # The round after the next one: before it the loop takes in what has come meanwhile.
            self._soon(lambda: self._soon(self._begin))

    def _begin(self) -> None:
        self._taken_s, self.are_free = 0.0, True
        now_s, newest = self.clock(), next(self._numbers)
        order = [(each.rank_s(now_s), each.waiting[0][1], party) for party, each in self._queues.items()]
        heapify(order)
        most_s = order[0][0] + _TURN_S if order else 0.0
        try:
            while order and self.are_free:
                rank_s, _, party = heappop(order)
                # A client that has taken much does not hold up the answers to those before it.
                if rank_s > most_s:
                    break
                most_s = rank_s + _TURN_S
                queue = self._queues[party]
                _, _, go = heappop(queue.waiting)
                if not queue.waiting:
                    del self._queues[party]
                elif (first := queue.waiting[0][1]) < newest:
                    heappush(order, (queue.rank_s(now_s), first, party))
                go()
        finally:
            if self._queues:
                self._end()
