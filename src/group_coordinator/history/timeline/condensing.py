"""Several things that are drawn as one.

A day may have hundreds of rebalances, of which none is wider than a hair. Neighbours that are too narrow to
be told apart become one piece that says how many they are. So the size of a picture is bounded by its width
and the number of its lanes, not by the length of the story.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from group_coordinator.history.timeline.pieces import Mark, Place

NARROW = 4.0
"""Things that are narrower than this many pixels are drawn together with their neighbours."""
_BLOCKS = 4_000
"""About how many blocks there may be in all lanes together."""
_TOGETHER = 56.0
"""How wide what is drawn as one may become, unless its parts are half of that."""
_LINES = 12
"""Of what there is to read of several marks."""

T = TypeVar("T")


def narrow_with(lanes: int, width: float) -> float:
    """Return the width below which things are narrow in a picture of so many lanes."""
    return max(NARROW, width * lanes / _BLOCKS)


def together(spans: Iterable[T], place_of: Callable[[T], Place], narrow: float) -> Iterator[list[T]]:
    """The wide ones one by one, and the narrow ones together with their narrow neighbours."""
    run: list[T] = []
    begin = 0.0
    for span in spans:
        place = place_of(span)
        is_narrow = place.width < narrow
        if run and (not is_narrow or place.end - begin > max(_TOGETHER, 2 * narrow)):
            yield run
            run = []
        if not is_narrow:
            yield [span]
            continue
        begin = begin if run else place.begin
        run.append(span)
    if run:
        yield run


def marks(every: Iterable[Mark], apart: float, kind_of: Callable[[set[str]], str]) -> Iterator[Mark]:
    """Marks of which each is `apart` or more from the next; `kind_of`: the kind of those that are one."""
    run: list[Mark] = []
    for mark in sorted(every, key=lambda mark: mark.x):
        if run and mark.x - run[0].x >= apart:
            yield _mark(run, kind_of)
            run = []
        run.append(mark)
    if run:
        yield _mark(run, kind_of)


def _mark(run: list[Mark], kind_of: Callable[[set[str]], str]) -> Mark:
    lines = [line for mark in run for line in mark.lines]
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"and {len(lines) - _LINES + 1} lines more"]
    return Mark(run[0].x, kind_of({mark.kind for mark in run}), lines, len(run))
