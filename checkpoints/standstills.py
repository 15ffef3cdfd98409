"""The standstills of request partitions that a checkpoint knows of.

Decisions depend on them, as on outages. One begins with the end of an outage, when all that the partition had
was read, and is open until the partition takes requests again. The stateful function decides nothing about
groups of the partition meanwhile, and refuses records of them. So nothing depends on what happens first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.checkpoints.notes import read_notes, write_notes
from group_coordinator.coordinator_state.standstills import Standstill

if TYPE_CHECKING:
    from collections.abc import Collection

    from group_coordinator.checkpoints.files import CheckpointFiles

__all__ = [
    "STOOD_STILL",
    "StoodStillError",
    "begin_standstills",
    "end_standstills",
    "read_standstills",
    "write_standstills",
]

STOOD_STILL = "[STOOD_STILL]"
"""The condition in the error that ends a query that has met a request of a partition that stood still."""
_FILE = "standstills.json"
_KEPT = 1_000
"""Older ones matter to groups only in which nothing has happened since."""


class StoodStillError(Exception):
    """A partition takes requests again; the message has `STOOD_STILL` and the partition."""


def read_standstills(files: CheckpointFiles) -> list[Standstill]:
    """All that are kept, in the order in which they began."""
    return read_notes(files, _FILE, list[Standstill])


def write_standstills(files: CheckpointFiles, standstills: list[Standstill]) -> None:
    """Keep `standstills` instead of what was kept."""
    write_notes(files, _FILE, standstills)


def begin_standstills(files: CheckpointFiles, partitions: Collection[int], at_ms: int) -> list[int]:
    """Note that these partitions take no requests since then; return those of which it was not known."""
    standstills = read_standstills(files)
    known = {it.partition for it in standstills if it.end_ms is None}
    begun = sorted(set(partitions) - known)
    if begun:
        older = len(standstills) + len(begun) - _KEPT
        kept = [it for place, it in enumerate(standstills) if place >= older or it.end_ms is None]
        write_standstills(files, [*kept, *(Standstill(it, at_ms) for it in begun)])
    return begun


def end_standstills(files: CheckpointFiles, partitions: Collection[int], at_ms: int) -> list[Standstill]:
    """Note that these partitions take requests since then; return the standstills that have ended."""
    standstills = read_standstills(files)
    after = [
        it._replace(end_ms=max(at_ms, it.start_ms + 1))
        if it.end_ms is None and it.partition in partitions
        else it
        for it in standstills
    ]
    ended = [it for it, before in zip(after, standstills, strict=True) if it != before]
    if ended:
        write_standstills(files, after)
    return ended
