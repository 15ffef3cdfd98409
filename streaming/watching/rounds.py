"""The times of the watcher: when it asks about all topics, and how many groups it tells at once."""

from __future__ import annotations

_EARLY_S = 1.0
_WRITES_PER_S = 600
"""Ten thousand groups take 17 s. The members of so many send thousands of heartbeats in a second."""
_WRITES_AT_ONCE = 60


class Rounds:
    """The times at which rounds begin: every `interval_s`, and one in between if somebody waits for it."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._early_s = min(_EARLY_S, interval_s)
        self._begun_s: float | None = None
        self._ended_s: float | None = None
        self._is_early = False
        self._hurries = False

    def hurry(self) -> None:
        """Let the next one come a second after the one before, unless that has come early itself."""
        self._hurries = True

    def begins(self, now_s: float) -> bool:
        """Whether one begins now. The one before has ended. Rounds take half of all time at most."""
        if self._begun_s is not None:
            if self._ended_s is None:
                self._ended_s = now_s
            is_early = self._hurries and not self._is_early
            wait_s = self._early_s if is_early else self._interval_s
            if now_s < max(self._begun_s + wait_s, 2 * self._ended_s - self._begun_s):
                return False
            self._is_early = is_early
        self._begun_s, self._ended_s, self._hurries = now_s, None, False
        return True


class Pace:
    """The number of records that may be written."""

    def __init__(self, now_s: float) -> None:
        self._wrote_s = now_s

    def room(self, now_s: float) -> int:
        """The number that may be written now, after those of the time before."""
        room = min(_WRITES_AT_ONCE, int((now_s - self._wrote_s) * _WRITES_PER_S))
        if room:
            self._wrote_s = now_s
        return room
