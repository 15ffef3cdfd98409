"""The axis of time: from moments to places, and where ticks are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_APART = 84
"""Least distance of two ticks."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000
_STEPS_MS = (
    *(unit * each for unit in (1, 10, 100) for each in (1, 2, 5)),
    *(1_000 * each for each in (1, 2, 5, 10, 15, 30)),
    *(60_000 * each for each in (1, 2, 5, 10, 15, 30)),
    *(3_600_000 * each for each in (1, 2, 3, 6, 12)),
    *(_DAY * each for each in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)),
)


class Tick(NamedTuple):
    """A tick at `x`. `label`: the time; `day`: the date if a new one has begun, or ""."""

    x: float
    label: str
    day: str


class Axis(NamedTuple):
    """Time from `since` to `until` runs from `left` to `right`."""

    since: datetime
    until: datetime
    left: float
    right: float

    def x(self, at: datetime) -> float:
        """The place of `at`, or of the end that is nearest to it."""
        place = self.left + (self.right - self.left) * ((at - self.since) / (self.until - self.since))
        return min(max(place, self.left), self.right)

    def ticks(self) -> Iterator[Tick]:
        """At round times (UTC)."""
        begin, end = _ms(self.since), _ms(self.until)
        most = max((self.right - self.left) / _APART, 1)
        step = next((each for each in _STEPS_MS if (end - begin) / each <= most), None)
        if step is None:
            step = _DAY * 1_000 * -(-(end - begin) // int(_DAY * 1_000 * most))
        day = f"{self.since.astimezone(UTC):%Y-%m-%d}"
        for ms in range(-(-begin // step) * step, end + 1, step):
            at = _EPOCH + timedelta(milliseconds=ms)
            is_first, day = f"{at:%Y-%m-%d}" != day, f"{at:%Y-%m-%d}"
            yield Tick(self.x(at), _label(at, step), day if is_first and step % _DAY else "")


def _ms(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _label(at: datetime, step: int) -> str:
    if step % _DAY == 0:
        return f"{at:%Y-%m-%d}"
    if step % 60_000 == 0:
        return f"{at:%H:%M}"
    if step % 1_000 == 0:
        return f"{at:%H:%M:%S}"
    return f"{at:%S}.{at.microsecond // 1000:03} s"
