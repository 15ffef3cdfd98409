"""The watches of coordinators: from where on they look for records of the compacted topics that come late.

A coordinator that has taken over watches these topics for some minutes, as `streaming/corrections.py` says.
If another one takes over from it within that time, the first one may still be writing. So the checkpoint
keeps where each watch began, and the next coordinator goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from group_coordinator.checkpoints.notes import read_json

if TYPE_CHECKING:
    from group_coordinator.checkpoints.files import CheckpointFiles

_FILE = "watches.json"
_OPEN_MS = 600_000
"""For so long after its begin a record may come late: twice as long as the watch itself is."""


class Watch(NamedTuple):
    """A watch that began at log time `since_ms`, when the topics ended before the offsets `ends`.

    `ends`: by topic and partition.
    """

    since_ms: int
    ends: dict[str, dict[int, int]]


def open_watches(files: CheckpointFiles, now_ms: int) -> list[Watch]:
    """Return those that began lately, the oldest first. Log time is `now_ms`."""
    watches = read_json(files, _FILE, list[Watch]) or []
    return [it for it in watches if now_ms - it.since_ms < _OPEN_MS]


def begin_watch(files: CheckpointFiles, watch: Watch) -> None:
    """Note a watch that begins, and forget those that are over."""
    files.write(_FILE, msgspec.json.encode([*open_watches(files, watch.since_ms), watch]))
