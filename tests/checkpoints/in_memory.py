"""The files of a checkpoint, in memory."""

from __future__ import annotations


class Files:
    """As `CheckpointFiles`, for what is noted beside Spark's own files."""

    def __init__(self) -> None:
        self.written: dict[str, bytes] = {}

    def read(self, name: str) -> str | None:
        return self.written[name].decode() if name in self.written else None

    def write(self, name: str, content: bytes) -> None:
        self.written[name] = content

    def name(self, name: str) -> str:
        return name
