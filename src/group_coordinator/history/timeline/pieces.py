"""The pieces of a picture. Places are from left to right, in pixels. `lines` are the text for the mouse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from group_coordinator.history.timeline.axis import Axis

SEVERAL = "several"
"""In place of a kind or a state: things that differ, drawn as one."""
OUTAGE = "no coordinator"
"""In place of a state: no coordinator ran, and the group stayed as it was."""


class Place(NamedTuple):
    """A place from `begin` to `end`, which may be the same."""

    begin: float
    end: float

    @property
    def width(self) -> float:
        """The width."""
        return self.end - self.begin


class Bar(NamedTuple):
    """A membership, or `times` short ones.

    `is_open`: whether it began before the picture does, and whether it goes on after it.
    """

    place: Place
    is_open: tuple[bool, bool]
    lines: Sequence[str]
    times: int = 1


class Block(NamedTuple):
    """The work of a member in one generation, or in `times` generations that are too short to be drawn alone.

    `labels`: what to write into it, the longest first. `tone`: 0 or 1, so that neighbours differ.
    """

    place: Place
    labels: Sequence[str]
    lines: Sequence[str]
    leads: bool
    tone: int
    times: int = 1
    number: str = "generation"
    """The word for the number of the division: "generation", or "epoch" in the consumer protocol."""


class Mark(NamedTuple):
    """Something that happened at one moment, or `times` things that did so close together.

    `kind`: `joined` or `rejoined`; or why a membership ended, or `SEVERAL`.
    """

    x: float
    kind: str
    lines: Sequence[str]
    times: int = 1


class Segment(NamedTuple):
    """The group in one state, or (`SEVERAL`) a row of rebalances that are too short to be drawn alone.

    `because`: why the rebalance began that begins here, in a few words; "" if none does.
    """

    place: Place
    state: str
    labels: Sequence[str]
    lines: Sequence[str]
    because: str


class Dot(NamedTuple):
    """The greatest lag at `x`, in records. `is_joined`: whether nothing is missing since the dot before."""

    x: float
    records: int
    is_joined: bool
    lines: Sequence[str]


class Lane(NamedTuple):
    """A member; or a static member, with all its runs one after the other."""

    name: str
    details: str
    bars: Sequence[Bar]
    blocks: Sequence[Block]
    joins: Sequence[Mark]
    ends: Sequence[Mark]
    waits: Sequence[Bar]
    """The times in which it waited for what another member still had."""


class Curve(NamedTuple):
    """The lag over time. `details`: its greatest values, in words."""

    dots: Sequence[Dot]
    details: Sequence[str]

    @property
    def runs(self) -> list[list[Dot]]:
        """The dots that are joined."""
        runs = list[list[Dot]]()
        for dot in self.dots:
            if dot.is_joined and runs:
                runs[-1].append(dot)
            else:
                runs.append([dot])
        return runs


class Picture(NamedTuple):
    """All that is drawn. `hidden`: members that found no lane."""

    axis: Axis
    summary: str
    segments: Sequence[Segment]
    outages: Sequence[Segment]
    lanes: Sequence[Lane]
    hidden: int
    lag: Curve | None = None

    @property
    def is_condensed(self) -> bool:
        """Whether anything is drawn together with others."""
        return any(each.state == SEVERAL for each in self.segments) or any(
            any(bar.times > 1 for bar in lane.bars) or any(block.times > 1 for block in lane.blocks)
            for lane in self.lanes
        )
