"""Places on a disk of this machine: their names, and the room that is taken there."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from group_coordinator.checkpoints.errors import CheckpointError

_PLAIN = re.compile(r"[A-Za-z0-9/:@=+,._~-]*")


class Room(NamedTuple):
    """The room that a directory takes on its file system, and the room that is left there.

    `taken`: bytes of all blocks, as `du` counts them. A small file takes a whole block, so this may be many
    times the bytes in the files. `free`: bytes that a user other than root may still write.
    """

    taken: int
    files: int
    free: int


def local_path(checkpoint: str) -> Path | None:
    """Return where a checkpoint is on this machine; None if it is in an object store, on HDFS or the like."""
    scheme, colon, path = checkpoint.partition(":")
    if colon and scheme == "file":
        return Path("/" + path.lstrip("/"))
    return None if "://" in checkpoint else Path(checkpoint)


@contextmanager
def plain_place(place: str) -> Iterator[str]:
    """A name for a place that all readers understand alike, while the context is open.

    Some of Spark's and Delta's readers take a path for a URI or a pattern. They look for another place if
    there is a blank, `#`, `%` or `*` in it. So a place on this machine gets a link without such characters.
    Raises `CheckpointError` for a place elsewhere.
    """
    if _PLAIN.fullmatch(place):
        yield place
        return
    path = local_path(place)
    if path is None:
        raise CheckpointError(
            f"{place} cannot be read: its name may only have letters of ASCII, digits and /:@=+,._~-"
        )
    with tempfile.TemporaryDirectory(prefix="group-coordinator-") as directory:
        link = Path(directory, "place")
        link.symlink_to(path.absolute(), target_is_directory=True)
        yield str(link)


def room_of(checkpoint: str) -> Room | None:
    """Measure a checkpoint, with one call of the system for each file.

    Returns None if it is not on this machine, or not there yet. Raises OSError if the disk cannot be asked.
    """
    path = local_path(checkpoint)
    if path is None or not path.is_dir():
        return None
    taken = files = 0
    for folder, _, names in os.walk(path):
        taken += _blocks(folder)
        files += len(names)
        taken += sum(_blocks(os.path.join(folder, name)) for name in names)  # noqa: PTH118 - thousands of them
    return Room(taken, files, shutil.disk_usage(path).free)


def _blocks(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except FileNotFoundError:
        # Spark deletes old files meanwhile.
        return 0
