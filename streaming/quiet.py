"""Quietness: nobody asks the coordinator anything. Then it asks Kafka less often, and ticks are fewer.

Time is an argument, in seconds of a clock that does not go back.
"""

from __future__ import annotations

from group_coordinator.streaming.polling import Pause

_QUIET_S = 5.0
"""With no request for so long none is expected soon."""
_UNUSED_S = 60.0
"""With no request for so long it may be that no client uses it."""


class Quietness:
    """The time since requests came last. Probes are not among them."""

    def __init__(self, now_s: float) -> None:
        self._heard = self._followed = 0
        self._heard_at_s = now_s

    def look(self, heard: int, followed: int, now_s: float) -> Pause:
        """Take in how much was heard so far, and how much of it others may follow soon.

        Returns how long the query may let pass between two polls.
        """
        is_followed = followed != self._followed
        if heard != self._heard:
            self._heard_at_s = now_s
        self._heard, self._followed = heard, followed
        if is_followed:
            return Pause.NONE
        if self._lasts(_UNUSED_S, now_s):
            return Pause.LONGEST
        return Pause.LONG if self.is_there(now_s) else Pause.SHORT

    def is_there(self, now_s: float) -> bool:
        """Whether no request is expected soon."""
        return self._lasts(_QUIET_S, now_s)

    def _lasts(self, for_s: float, now_s: float) -> bool:
        return now_s - self._heard_at_s > for_s
