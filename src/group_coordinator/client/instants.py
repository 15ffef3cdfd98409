"""The instants at which the members of a group send their heartbeats."""

from __future__ import annotations

import zlib

# Ticks of the coordinator's clock come at whole seconds.
_TICK_MS = 1_000
_LEAST_WITH_TICKS_MS = 3 * _TICK_MS
"""Members with shorter intervals do not beat with the ticks, because up to a second is cut off."""


def next_instant(group_id: str, every_ms: int, now_ms: int, wall_ahead_ms: int | None) -> int:
    """The time of the next heartbeat, at most one interval from now.

    Members of a group that have the same interval send theirs at the same instants. So the coordinator
    takes the group's state once for all of them, and a shared connection sends them as one. From three
    seconds on, these are instants at which the clock ticks as well; groups differ in the second.

    `wall_ahead_ms`: by how much the time of day is ahead of `now_ms`; None: simply one interval from now.
    """
    due = now_ms + every_ms
    if wall_ahead_ms is None:
        return due
    if every_ms >= _LEAST_WITH_TICKS_MS:
        every_ms -= every_ms % _TICK_MS
    instant = wall_ahead_ms + zlib.crc32(group_id.encode()) * _TICK_MS
    return due - (due + instant) % every_ms
