"""The lag of the group over time, as a line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby

from group_coordinator.history.story import LagPoint
from group_coordinator.history.timeline.pieces import Curve, Dot
from group_coordinator.history.timeline.text import counted, span_of_time
from group_coordinator.history.timeline.view import View

_COLUMN = 2.0
"""Measurements that are less than so many pixels apart are one dot, at the greatest of them."""


def curve(view: View) -> Curve | None:
    """The line, with as many dots as the axis has columns at most; None if nothing is measured there."""
    points = [each for each in view.story.lag if each.at < view.axis.until and each.until > view.axis.since]
    if not points:
        return None
    dots = list(_dots(points, view))
    return Curve(dots, _words(points))


def _dots(points: list[LagPoint], view: View) -> Iterator[Dot]:
    before: LagPoint | None = None
    for _, column in groupby(points, key=lambda each: view.axis.x(each.at) // _COLUMN):
        together = list(column)
        first, last = together[0], together[-1]
        highest = max(together, key=lambda each: each.records)
        when = view.write(first.at) if first is last else f"{view.write(first.at)} - {view.write(last.at)}"
        yield Dot(
            view.axis.x(highest.at),
            highest.records,
            before is not None and first.at <= before.until,
            [when, *_words(together)],
        )
        before = last


def _words(points: list[LagPoint]) -> list[str]:
    """The greatest lag in records, and the greatest age."""
    up_to = "up to " if len(points) > 1 else ""
    lines = [f"{up_to}{counted(max(each.records for each in points), 'record')}"]
    oldest = max(points, key=lambda each: each.age_ms)
    if oldest.age_ms:
        more = " or more" if any(each.at_least for each in points) else ""
        lines.append(f"{up_to}{span_of_time(timedelta(milliseconds=oldest.age_ms))}{more}")
    return lines
