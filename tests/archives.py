"""Folders of older versions, kept as archives without the names of those who made them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

__all__ = ["pack", "unpack"]

# Python has filters from 3.11.4 on.
_SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def pack(folder: Path, archive: Path, name: str) -> None:
    """Write a folder into an archive, where it is called `name`."""
    with tarfile.open(archive, "w:gz") as opened:
        opened.add(folder, name, filter=_anonymous)


def unpack(archive: Path, directory: Path) -> None:
    """Unpack an archive into a directory."""
    with tarfile.open(archive) as opened:
        opened.extractall(directory, **_SAFELY)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
