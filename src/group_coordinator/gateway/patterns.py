"""The topics that patterns of members match, as Kafka has them now.

`matching.py` looks, for one question at a time, and tells of each of its patterns on its own. Questions that
come meanwhile share the next look.
Time is an argument, in seconds.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from group_coordinator.jobs.topic_patterns import Matched

    _Then: TypeAlias = Callable[[Matched | None], None]

_LATE_S = 5.0
"""How long an answer that came too late is kept: until its client has asked again."""
_MOST_AT_ONCE = 100
"""Patterns in one question."""


class _Wanting(NamedTuple):
    """Somebody who wants to know, until `due_s`."""

    due_s: float
    then: _Then


class Patterns:
    """The topics of patterns. `look` is told which patterns to match, and each answer is `told`."""

    def __init__(self, look: Callable[[list[str]], None]) -> None:
        self._look = look
        self._wanting: dict[str, list[_Wanting]] = {}
        """By pattern, in the order in which they came."""
        self._asked: dict[str, list[_Wanting]] = {}
        """The patterns of the question that are not told yet: later ones may know of newer topics."""
        self._late: dict[str, tuple[Matched, float]] = {}
        """The answers that came too late for all who had asked, and when."""
        self._now_s = 0.0
        """When time has passed last."""

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, chain(self._asked.values(), self._wanting.values())))

    def find(self, pattern: str, then: _Then, patience_s: float) -> None:
        """Tell `then` what the pattern matches as of now; None if Kafka does not say so in time.

        Its client asks again then, and is told what has come meanwhile.
        """
        late = self._late.pop(pattern, None)
        if late is not None:
            then(late[0])
            return
        self._wanting.setdefault(pattern, []).append(_Wanting(self._now_s + patience_s, then))
        self._ask()

    def told(self, pattern: str, matched: Matched | None) -> None:
        """Take what a pattern of the question matches; None if Kafka could not tell."""
        waiting = self._asked.pop(pattern, None)
        if waiting is None:
            return
        if matched is not None and not waiting:
            self._late[pattern] = matched, self._now_s
        for each in waiting:
            each.then(matched)
        self._ask()

    def expire(self, now_s: float) -> None:
        """Go on without an answer with those who have waited long enough."""
        self._now_s = now_s
        expired: list[_Wanting] = []
        for by_pattern in (self._asked, self._wanting):
            for pattern, waiting in by_pattern.items():
                expired += [each for each in waiting if each.due_s <= now_s]
                by_pattern[pattern] = [each for each in waiting if each.due_s > now_s]
        self._wanting = {pattern: waiting for pattern, waiting in self._wanting.items() if waiting}
        for each in expired:
            each.then(None)
        while self._late and next(iter(self._late.values()))[1] + _LATE_S <= now_s:
            del self._late[next(iter(self._late))]

    def _ask(self) -> None:
        if not self._asked and self._wanting:
            asked = list(islice(self._wanting, _MOST_AT_ONCE))
            self._asked = {pattern: self._wanting.pop(pattern) for pattern in asked}
            self._look(asked)
