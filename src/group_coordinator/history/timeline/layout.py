"""The place of everything that is drawn, from left to right. How high things are is `svg`'s business."""

from __future__ import annotations

from group_coordinator.history.story import Story
from group_coordinator.history.timeline.axis import Axis
from group_coordinator.history.timeline.band import outages, segments, summary
from group_coordinator.history.timeline.lag import curve
from group_coordinator.history.timeline.lanes import lanes
from group_coordinator.history.timeline.pieces import Picture
from group_coordinator.history.timeline.view import View

__all__ = ["lay_out"]


def lay_out(story: Story, axis: Axis, max_lanes: int) -> Picture:
    """Lay the story out along `axis`, with at most `max_lanes` lanes.

    The story is sorted once and then walked through, so its length does not matter much.
    """
    view = View(story, axis)
    shown, hidden = lanes(view, max_lanes)
    return Picture(
        axis,
        summary(view, len(shown) + hidden),
        list(segments(view)),
        list(outages(view)),
        shown,
        hidden,
        curve(view),
    )
