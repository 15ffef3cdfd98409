"""Numbers that the event loop's thread alone raises, for all that passes. They take no lock."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.utils import INF, floatToGoString

if TYPE_CHECKING:
    from collections.abc import Sequence


class Count:
    """A count."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def inc(self, amount: int = 1) -> None:
        """Raise it."""
        self.total += amount


class Durations:
    """A histogram of durations, in seconds. `bounds`: of its buckets, in their order."""

    __slots__ = ("_bounds", "_counts", "total_s")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = (*bounds, INF)
        self._counts = [0] * len(self._bounds)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.total_s += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Each bound as Prometheus writes it, and how many there were up to it."""
        return list(zip(map(floatToGoString, self._bounds), accumulate(self._counts), strict=True))
