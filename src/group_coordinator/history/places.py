"""The place of the tables, in the words of the `deltalake` package."""

from __future__ import annotations

import re

from group_coordinator.checkpoints.disk import local_path
from group_coordinator.history.errors import HistoryError

_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|\\")
"""The package decodes such a path twice, and finds another folder."""


def place_of(path: str) -> str:
    """Return what to open for `path`, a directory, its `file:` URI as Hadoop has it, or one of a store.

    Raises `HistoryError` for a folder that Spark can write and nobody can read.
    """
    local = local_path(path)
    if local is None:
        # Hadoop's name for what everybody else calls s3.
        return f"s3{path.removeprefix('s3a')}" if path.startswith("s3a://") else path
    if found := _MISREAD.search(str(local.absolute())):
        raise HistoryError(
            f"tables in {path} cannot be read, since {found[0]} is in its name: rename the folder"
        )
    return str(local)
