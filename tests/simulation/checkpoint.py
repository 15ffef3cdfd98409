"""The checkpoint's files, in memory, with plans and commits of batches as Spark writes them."""

from __future__ import annotations

import msgspec

from tests.checkpoints.in_memory import Files

_KEPT = 100
"""As many plans as Spark keeps."""


class Checkpoint(Files):
    """As `CheckpointFiles`. Only the newest batches are kept."""

    checkpoint = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.newest = -1
        """The number of the newest batch."""

    def list(self, directory: str) -> list[str]:
        """The names of the files there."""
        return [name.split("/")[1] for name in self.written if name.startswith(f"{directory}/")]

    def plan(self, at_ms: int, watermark_ms: int, topic: str, ends: list[int]) -> int:
        """Plan the next batch, which ends there in each partition; return its number."""
        self.newest += 1
        metadata = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": at_ms, "conf": {}}
        offsets = {topic: dict(enumerate(ends))}
        self._put(f"offsets/{self.newest}", metadata, offsets)
        self.written.pop(f"offsets/{self.newest - _KEPT}", None)
        self.written.pop(f"commits/{self.newest - _KEPT}", None)
        return self.newest

    def commit(self, number: int, next_watermark_ms: int) -> None:
        """Commit a batch."""
        self._put(f"commits/{number}", {"nextBatchWatermarkMs": next_watermark_ms})

    def _put(self, name: str, *lines: object) -> None:
        self.written[name] = b"\n".join([b"v1", *map(msgspec.json.encode, lines)])
