"""The topics that patterns of members match, as Kafka has them now.

    patterns.find(pattern, then, patience_s)    `then` is told, in a moment
    patterns.told(matched)                      somebody has looked
    patterns.expire(now_s)                      time has passed

`matching.py` looks, for one question at a time. Questions that come meanwhile share the next look.
Time is an argument, in seconds.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from group_coordinator.jobs.topic_patterns import Matched

    _Then: TypeAlias = Callable[[Matched | None], None]

__all__ = ["Patterns"]

_LATE_S = 5.0
"""How long an answer that came too late is kept: until its client has asked again."""
_MOST_AT_ONCE = 100
"""Patterns in one question."""


class _Wanting:
    """Somebody who wants to know, until `due_s`."""

    __slots__ = ("due_s", "pattern", "then")

    def __init__(self, pattern: str, due_s: float, then: _Then) -> None:
        self.pattern, self.due_s, self.then = pattern, due_s, then


class Patterns:
    """The topics of patterns. `look` is told which patterns to match, and the answer is `told`."""

    def __init__(self, look: Callable[[list[str]], None]) -> None:
        self._look = look
        self._wanting: list[_Wanting] = []
        """In the order in which they came."""
        self._asked: tuple[frozenset[str], list[_Wanting]] | None = None
        """The patterns of the question, and those who wait for it: later ones may know of newer topics."""
        self._late: dict[str, tuple[Matched, float]] = {}
        """The answers that came too late for all who had asked, and when."""
        self._now_s = 0.0
        """When time has passed last."""

    def __len__(self) -> int:
        """How many wait."""
        return len(self._wanting)

    def find(self, pattern: str, then: _Then, patience_s: float) -> None:
        """Tell `then` what the pattern matches as of now; None if Kafka does not say so in time.

        Its client asks again then, and is told what has come meanwhile.
        """
        late = self._late.pop(pattern, None)
        if late is not None:
            then(late[0])
            return
        self._wanting.append(_Wanting(pattern, self._now_s + patience_s, then))
        self._ask()

    def told(self, matched: Mapping[str, Matched]) -> None:
        """Take the answer: what each pattern matches, without those for which Kafka could not tell."""
        if self._asked is None:
            return
        (patterns, asking), self._asked = self._asked, None
        waiting = {each.pattern for each in asking if each in self._wanting}
        for pattern in patterns - waiting:
            if pattern in matched:
                self._late[pattern] = matched[pattern], self._now_s
        self._end([each for each in asking if each.pattern in patterns], matched)
        self._ask()

    def expire(self, now_s: float) -> None:
        """Go on without an answer with those who have waited long enough."""
        self._now_s = now_s
        self._end([each for each in self._wanting if each.due_s <= now_s], {})
        while self._late and next(iter(self._late.values()))[1] + _LATE_S <= now_s:
            del self._late[next(iter(self._late))]

    def _ask(self) -> None:
        if self._asked is None and self._wanting:
            patterns = dict.fromkeys(each.pattern for each in self._wanting)
            asked = list(islice(patterns, _MOST_AT_ONCE))
            self._asked = frozenset(asked), list(self._wanting)
            self._look(asked)

    def _end(self, ended: list[_Wanting], matched: Mapping[str, Matched]) -> None:
        for each in ended:
            # Some may have been told already, because their time was over.
            if each in self._wanting:
                self._wanting.remove(each)
                each.then(matched.get(each.pattern))
