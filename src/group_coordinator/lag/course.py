"""The course of a group in one partition, and what is to be said of it: Burrow's rules.

Source: Burrow's wiki, "Consumer Lag Evaluation Rules", and its changes 338 and 716. By the first a consumer
that had no lag lately gets time to see a new record; the second is about offsets that go back. The rules need
no threshold: they compare commits with the commits before them.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

_WINDOW = 10
_LEAST = 3
"""Fewer commits tell nothing of a course."""
_LEAST_APART_MS = 1_000
"""A sooner commit takes the place and the time of the one before: a window is to span some time."""


class Status(Enum):
    """The status of a partition, from the best to the worst."""

    OK = "ok"
    LAGGING = "lagging"
    """The group commits, and falls behind further with each commit (Burrow's WARN)."""
    REWOUND = "rewound"
    """The group has gone back to an earlier offset, and has not come as far again (Burrow's REWIND)."""
    STOPPED = "stopped"
    """The group commits no more, although there are records (Burrow's STOP)."""
    STALLED = "stalled"
    """The group commits, and always the same offset, although there are records (Burrow's STALL)."""


class _Commit(NamedTuple):
    """A commit, and the lag when it was seen; None until the next measurement. Times in ms."""

    at_ms: int
    offset: int
    lag: int | None


class Course:
    """The last commits of a group in one partition, and the last measurements of its lag."""

    def __init__(self) -> None:
        self.topic_id = ""
        """Kafka's id of the topic, as the last commit has given it; empty if it has given none."""
        self._commits: deque[_Commit] = deque(maxlen=_WINDOW)
        self._lags: deque[int] = deque(maxlen=_WINDOW)

    @property
    def newest(self) -> tuple[int, int]:
        """The time of the last commit, in ms, and its offset."""
        return self._commits[-1].at_ms, self._commits[-1].offset

    def commits(self, at_ms: int, offset: int, end: int | None) -> None:
        """Add a commit, unless it is older than the last. `end`: the end of the log then, if it was known."""
        if self._commits and at_ms < self._commits[-1].at_ms:
            return
        if self._commits and at_ms - self._commits[-1].at_ms < _LEAST_APART_MS:
            # With its own time the next one would take its place in turn, and the window would never fill.
            at_ms = self._commits.pop().at_ms
        self._commits.append(_Commit(at_ms, offset, None if end is None else max(0, end - offset)))

    def measured(self, lag: int, *, has_read_all: bool = False) -> None:
        """Add a measurement. `has_read_all`: none of the offsets that are left is a record."""
        self._lags.append(0 if has_read_all else lag)
        if self._commits and (self._commits[-1].lag is None or has_read_all):
            self._commits[-1] = self._commits[-1]._replace(lag=self._lags[-1])

    def status(self, now_ms: int) -> Status:
        """Judge the partition at the time `now_ms`."""
        if not self._commits or not self._lags or self._lags[-1] == 0:
            return Status.OK
        if self._is_stopped(now_ms):
            return Status.STOPPED
        if self._commits[-1].offset < max(each.offset for each in self._commits):
            return Status.REWOUND
        return self._compared()

    def _compared(self) -> Status:
        lags = [each.lag for each in self._commits if each.lag]
        # A group that had no lag at some of its commits is not behind.
        if len(self._commits) < _LEAST or len(lags) < len(self._commits):
            return Status.OK
        has_moved = len({each.offset for each in self._commits}) > 1
        if not has_moved and all(one <= other for one, other in pairwise(lags)):
            return Status.STALLED
        if all(one < other for one, other in pairwise(lags)):
            return Status.LAGGING
        return Status.OK

    def _is_stopped(self, now_ms: int) -> bool:
        """Whether the last commit is longer ago than the window of commits is long.

        A group that had no lag lately gets time to see a new record.
        """
        first, last = self._commits[0], self._commits[-1]
        is_behind = len(self._lags) == _WINDOW and all(self._lags)
        return is_behind and now_ms - last.at_ms > last.at_ms - first.at_ms
