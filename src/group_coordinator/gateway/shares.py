"""The number of groups that each client may begin, of the `max.groups` that the coordinator takes.

A client may begin a group while it holds less than nine times what is free. So one alone comes to nine
tenths of all, and then another one may still begin some: the one that holds most is refused first. Groups
that clients began at other gateways, or before this one started, are nobody's.

Source: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches" (1998).
"""

from __future__ import annotations

from collections import Counter

_TIMES_FREE = 9
_COUNTS_S = 120.0
"""How long a group counts that is not in the index: one that was asked for, or was deleted. The coordinator
remembers a deleted group for a minute."""


class Shares:
    """The groups that clients have begun at this gateway. Times in s of a clock that does not go back."""

    def __init__(self, most: int = 0) -> None:
        self.most = most
        """The coordinator's `max.groups`; 0: it is not known, and anybody may begin any number."""
        self._there: set[str] = set()
        self._absent: dict[str, float] = {}
        """Groups that count although they are not there, and until when; the first to go is the first."""
        self._begun: dict[str, str] = {}
        self._held: Counter[str] = Counter()

    def put(self, group_id: str, now_s: float, *, is_there: bool) -> None:
        """A group is there, or has been deleted."""
        if is_there:
            self._there.add(group_id)
            self._absent.pop(group_id, None)
        elif group_id in self._there:
            self._there.discard(group_id)
            self._absent[group_id] = now_s + _COUNTS_S

    def may_begin(self, group_id: str, whose: str, now_s: float) -> bool:
        """Whether the client called `whose` may ask for this group. A new one counts from now on."""
        self._expire(now_s)
        if not self.most or group_id in self._there or group_id in self._absent:
            return True
        free = self.most - len(self._there) - len(self._absent)
        if self._held[whose] >= _TIMES_FREE * free:
            return False
        self._absent[group_id] = now_s + _COUNTS_S
        self._begun[group_id] = whose
        self._held[whose] += 1
        return True

    def _expire(self, now_s: float) -> None:
        while self._absent:
            group_id = next(iter(self._absent))
            if self._absent[group_id] > now_s:
                return
            del self._absent[group_id]
            if (whose := self._begun.pop(group_id, None)) is not None:
                self._held[whose] -= 1
                if not self._held[whose]:
                    del self._held[whose]
