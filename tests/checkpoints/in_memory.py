"""The files of a checkpoint, in memory."""

from __future__ import annotations

import msgspec


class Files:
    """As `CheckpointFiles`, for what is noted beside Spark's own files, and for those that a test writes."""

    checkpoint = "in memory"

    def __init__(self) -> None:
        self.written: dict[str, bytes] = {}

    def read(self, name: str) -> str | None:
        return self.written[name].decode() if name in self.written else None

    def write(self, name: str, content: bytes) -> None:
        self.written[name] = content

    def name(self, name: str) -> str:
        return name

    def list(self, directory: str) -> list[str]:
        return [name.split("/")[1] for name in self.written if name.startswith(f"{directory}/")]


def plan(files: Files, batch: int, at_ms: int, *ends: int, watermark_ms: int = 0) -> None:
    """Plan a batch as Spark does: by that time of the driver's clock, up to these offsets of `requests`."""
    metadata = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": at_ms, "conf": {}}
    _write(files, f"offsets/{batch}", metadata, {"requests": dict(enumerate(ends)), "clock": {0: 7}})


def commit(files: Files, batch: int, next_watermark_ms: int) -> None:
    """Commit it."""
    _write(files, f"commits/{batch}", {"nextBatchWatermarkMs": next_watermark_ms})


def _write(files: Files, name: str, *lines: object) -> None:
    files.write(name, b"\n".join([b"v1", *map(msgspec.json.encode, lines)]))
