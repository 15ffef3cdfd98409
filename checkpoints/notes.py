"""Notes that a checkpoint keeps as JSON, beside Spark's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError

if TYPE_CHECKING:
    from group_coordinator.checkpoints.files import CheckpointFiles

T = TypeVar("T")


def read_json(files: CheckpointFiles, name: str, type_: type[T]) -> T | None:
    """Return the contents of the file `name`; None if there is no file.

    Raises `CheckpointError` if they are not of that type.
    """
    text = files.read(name)
    try:
        return None if text is None else ForeignJson[T](type_).read(text)
    except UnreadableError as error:
        raise CheckpointError(
            f"{files.name(name)} cannot be read: {error}; restore the checkpoint from an export"
        ) from None
