"""The direction that the lag of a group takes."""

from __future__ import annotations

from collections import deque
from enum import Enum
from statistics import fmean
from typing import NamedTuple

_WINDOW = 20
"""Measurements: five minutes, at one each 15 s."""
_LEAST = 12
"""With fewer, chance would look like a direction too often: with twelve it does so once in 924 times."""


class Direction(Enum):
    """Whether a lag grows."""

    STEADY = "steady"
    GROWING = "growing"
    CLEARING = "clearing"


class Trend(NamedTuple):
    """The direction, and in how many ms the lag will be gone if it goes on so; None if it does not fall."""

    direction: Direction
    clear_in_ms: int | None = None


class Trends:
    """The last measurements of a group's lag, in records.

    It grows if each of the newer half is above each of the older half, and clears if each is below. A lag
    that goes up and down with a consumer's batches is steady, however large they are. `window`: measurements
    that are looked at; of fewer than `least` nothing is said.
    """

    def __init__(self, window: int = _WINDOW, least: int = _LEAST) -> None:
        self._least = least
        self._measured: deque[tuple[int, int]] = deque(maxlen=window)

    def add(self, at_ms: int, lag: int) -> None:
        """Add a measurement."""
        self._measured.append((at_ms, lag))

    def trend(self) -> Trend:
        """Judge the measurements so far."""
        if len(self._measured) < self._least:
            return Trend(Direction.STEADY)
        measured = list(self._measured)
        middle = len(measured) // 2
        older, newer = measured[:middle], measured[middle:]
        if min(lag for _, lag in newer) > max(lag for _, lag in older):
            return Trend(Direction.GROWING)
        if max(lag for _, lag in newer) < min(lag for _, lag in older):
            before, now = (fmean(lag for _, lag in half) for half in (older, newer))
            began_ms, ended_ms = (fmean(at_ms for at_ms, _ in half) for half in (older, newer))
            left = measured[-1][1]
            return Trend(Direction.CLEARING, round(left * (ended_ms - began_ms) / (before - now)))
        return Trend(Direction.STEADY)
