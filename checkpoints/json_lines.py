"""Exports as JSON lines: the header, then a line for each group."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.export import ExportedGroup, ExportHeader, checked_export
from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from group_coordinator.checkpoints.export import Export

_T = TypeVar("_T")


def write_json_lines(export: Export, file: Path) -> None:
    """Write `export`, for its owner only. Raises `CheckpointError` if `file` exists or cannot be written."""
    # Under another name first: half an export must not look like a whole one.
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        if file.exists():
            raise CheckpointError(f"{file} exists: name another file")
        with open(temporary, "wb", opener=_private) as stream:
            stream.write(msgspec.json.encode(export.header) + b"\n")
            stream.writelines(msgspec.json.encode(group) + b"\n" for group in export.groups)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.rename(file)
    except OSError as error:
        raise CheckpointError(f"cannot write {file}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def read_json_lines(file: Path) -> Export:
    """Read an export. Raises `CheckpointError`, also while the groups are read."""
    lines = _lines(file)
    header = _decode(file, 1, next(lines, b""), _headers)
    groups = (_decode(file, number, line, _groups) for number, line in enumerate(lines, start=2))
    return checked_export(str(file), header, groups)


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as stream:
            yield from stream
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror}") from None


_headers = ForeignJson[ExportHeader](ExportHeader)
_groups = ForeignJson[ExportedGroup](ExportedGroup)


def _decode(file: Path, number: int, line: bytes, json: ForeignJson[_T]) -> _T:
    try:
        return json.read(line)
    except UnreadableError as error:
        raise CheckpointError(f"{file} is not an export: line {number}: {error}") from None


def _private(path: str, flags: int) -> int:
    # Others on this machine need not know what groups do, and the secret may be in it.
    return os.open(path, flags, 0o600)
