"""Notes that a checkpoint keeps as JSON, beside Spark's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from group_coordinator.checkpoints.files import CheckpointFiles

__all__ = ["checked", "read_notes", "write_notes"]

T = TypeVar("T")


def read_notes(files: CheckpointFiles, name: str, type_: type[list[T]]) -> list[T]:
    """Return the list in the file `name`; an empty one if there is no file.

    Raises `CheckpointError` if it is no list of that type.
    """
    text = files.read(name)
    return [] if text is None else checked(files, name, lambda: ForeignJson[list[T]](type_).read(text))


def write_notes(files: CheckpointFiles, name: str, notes: Sequence[object]) -> None:
    """Keep `notes` instead of what was kept."""
    files.write(name, msgspec.json.encode(notes))


def checked(files: CheckpointFiles, name: str, read: Callable[[], T]) -> T:
    """Return what `read` returns. Raises `CheckpointError` if that cannot read the file `name`."""
    try:
        return read()
    except UnreadableError as error:
        raise CheckpointError(
            f"{files.name(name)} cannot be read: {error}; restore the checkpoint from an export"
        ) from None
