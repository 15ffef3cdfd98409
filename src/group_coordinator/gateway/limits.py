"""Limits: those of one connection, and of all clients together with their counts and rules."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.seldom import Seldom

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.conversation import Conversation

log = logging.getLogger(__name__)


_STEP = 0.02
"""It is looked whether clients may ask again when so much more is free, and not after each answer."""
_ELEMENT_BYTES, _REQUEST_BYTES, _TIMES = 700, 2_000, 3


class Limits:
    """The limits of one connection. Sizes in bytes, times in seconds."""

    local_frame = 1_000_000
    login_frame = 512 * 1024
    """Until a client has logged in, as `sasl.server.max.receive.size` of a broker."""
    whole_frame = 16 * 1024 * 1024
    """Of a request of a group, at least: a longer one may be read whole where `max.request.bytes` is more."""
    passed_frame = 100 * 1024 * 1024
    kept_frame = 4_096
    """Of a heartbeat whose bytes a connection keeps. A longer one is decoded each time."""
    elements_alone = 200
    """A request with more elements in its lists holds back what comes after it, as each does at a broker."""
    slots = 100
    """Requests of a client that are under way at once. The answers to them may come together."""
    unwritten = 256 * 1024
    held = 64 * 1024 * 1024
    """Of responses that wait for one before them, such as that to a join."""
    first_frame_s = 30.0
    """Until a client has sent its first request to the end, or has logged in where it has to."""
    end_s = 10.0
    """Until a connection is cut off that was closed, or whose client has closed its side."""
    local_frame_s = 60.0
    """Until a request of a group that has begun is whole, however steadily its bytes come."""
    idle_s = 600.0
    """As `connections.max.idle.ms` of a broker."""
    late_bytes = 10_000
    """The size for which an answer is taken, or a later part of the work for a request."""
    least_s = 1e-5
    """The least of the event loop's time that is worth counting."""
    party_s = 0.25
    """Of the event loop's time, by all clients of a host or user; beyond that the others come first."""
    behind_s = 0.02
    """Of the event loop's time, by which clients and parties are behind others at most. Up to fifty can take
    more than is forgotten, and they have taken as much in a second."""
    keep_alive_s = 180.0
    """Until a silent broker is asked for a sign of life, where a login would be lost with it."""


class Budget:
    """Bytes that connections keep of one kind, and what becomes of a connection when all keep too many.

    `reason`: the kind, for which a connection is aborted. `setting`: the name of the limit `most_bytes`.
    `chosen` says which of those that keep something goes; they come in the order in which they began.
    """

    def __init__(
        self,
        reason: str,
        setting: str,
        most_bytes: int,
        chosen: Callable[[dict[Conversation, int]], Conversation],
    ) -> None:
        self.reason, self._setting = reason, setting
        self._most, self._chosen = most_bytes, chosen
        self._held: dict[Conversation, int] = {}
        self._aborted = Seldom()
        self.total = 0

    def hold(self, whose: Conversation, count: int, now_s: float) -> None:
        """Note how much is kept for this one now. Aborts connections until the rest is within the limit."""
        if count == self._held.get(whose, 0):
            return
        self.total += count - self._held.get(whose, 0)
        self._held[whose] = count
        if not count:
            del self._held[whose]
        while self.total > self._most:
            self._abort(self._chosen(self._held), now_s)

    def ends(self, whose: Conversation) -> None:
        """Note that nothing is kept for it any more; what it keeps next is new."""
        self.total -= self._held.pop(whose, 0)

    def _abort(self, whose: Conversation, now_s: float) -> None:
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


def bytes_kept(frame_bytes: int, elements: int) -> int:
    """About the memory that a request takes while it waits: its frame, what was read of it, its record."""
    return _TIMES * frame_bytes + _ELEMENT_BYTES * elements + _REQUEST_BYTES


def longest(held: dict[Conversation, int]) -> Conversation:
    """Choose the connection that began first: an honest request is whole soon after it has begun."""
    return next(iter(held))


def largest(held: dict[Conversation, int]) -> Conversation:
    """Choose the connection that keeps most: one that reads keeps little."""
    return max(held, key=held.__getitem__)


class Holding:
    """The requests of one client, or of one user, that wait for their answers."""

    __slots__ = ("bytes", "count")

    def __init__(self) -> None:
        self.count = self.bytes = 0


class Pending:
    """The requests that wait for their answers, and what they take.

    Somebody may ask as long as less waits for him than is free. So one alone gets half of all, and each of
    several as much as what is left for the next one. `on_stop` is told of each connection that may not ask.
    """

    def __init__(self, most: int, most_bytes: int, on_stop: Callable[[Any], None]) -> None:
        self._most, self._most_bytes, self._on_stop = most, most_bytes, on_stop
        self.by_api: defaultdict[int, int] = defaultdict(int)
        self.count = self.bytes = 0
        self.stopped: dict[Any, None] = {}
        """Connections that may not ask just now."""
        self._looked = 1.0
        """The part that was free when it was looked last whether they may ask again."""

    def add(self, holding: Holding, api_key: int, size: int) -> None:
        """One more waits, which takes `size` bytes."""
        self.by_api[api_key] += 1
        holding.count += 1
        holding.bytes += size
        self.count += 1
        self.bytes += size

    def grow(self, holding: Holding, size: int) -> None:
        """One of those that wait takes so many bytes more."""
        holding.bytes += size
        self.bytes += size

    def remove(self, holding: Holding, api_key: int, size: int) -> None:
        """One is answered."""
        self.by_api[api_key] -= 1
        holding.count -= 1
        holding.bytes -= size
        self.count -= 1
        self.bytes -= size
        if self.stopped and (self._free >= self._looked + _STEP or not self.count):
            self._looked = self._free
            for each in list(self.stopped):
                each.control()

    def may_ask(self, connection: Any, holding: Holding) -> bool:
        """Whether a connection may ask for more."""
        if holding.count < self._most - self.count and holding.bytes < self._most_bytes - self.bytes:
            if self.stopped:
                self.stopped.pop(connection, None)
            return True
        if connection not in self.stopped:
            self.stopped[connection] = None
            self._looked = min(self._looked, self._free)
            self._on_stop(connection)
        return False

    @property
    def _free(self) -> float:
        return min(1 - self.count / self._most, 1 - self.bytes / self._most_bytes)


class Rate:
    """A bound of how often something happens in a second; 0: there is none. All of it may come at once."""

    __slots__ = ("_each_s", "_until_s")

    def __init__(self, per_s: float) -> None:
        self._each_s = 1 / per_s if per_s else 0.0
        self._until_s = float("-inf")

    def take(self, now_s: float) -> float:
        """Let it happen once more; returns for how many seconds nothing more of it should."""
        self._until_s = max(self._until_s, now_s - 1) + self._each_s
        return self.wait_s(now_s)

    def wait_s(self, now_s: float) -> float:
        """For how many seconds it should not happen."""
        return max(0.0, max(self._until_s, now_s - 1) + self._each_s - now_s) if self._each_s else 0.0

    def is_used(self, now_s: float) -> bool:
        """Whether it has happened of late."""
        return self._until_s > now_s - 1
