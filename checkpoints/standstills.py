"""The standstills of request partitions that a checkpoint knows of.

Decisions depend on them, as on outages. One is open until the partition takes requests again. The stateful
function lets no time pass for groups of the partition meanwhile, and refuses records that are later than its
begin. So nothing depends on what happens first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.checkpoints.notes import read_notes, write_notes
from group_coordinator.coordinator_state.standstills import Standstill

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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


def begin_standstills(files: CheckpointFiles, begins: Mapping[int, int]) -> None:
    """Note that partitions, of which it was not known, take no requests since the times in `begins`."""
    standstills = read_standstills(files)
    older = len(standstills) + len(begins) - _KEPT
    kept = [it for place, it in enumerate(standstills) if place >= older or it.end_ms is None]
    write_standstills(files, [*kept, *(Standstill(*it) for it in begins.items())])


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
