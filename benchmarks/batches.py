"""How long a coordinator's batches take, by what it tells Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streams import Stream

_PATIENCE_S = 300
_POLL_S = 0.5
_BLOCK = 512
_SUM, _COUNT = "batch_duration_seconds_sum", "batch_duration_seconds_count"


class Batches(NamedTuple):
    """Batches of some time."""

    count: float
    mean_ms: float


class Window:
    """From its making to `batches`."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._before = stream.metrics()

    def batches(self) -> Batches:
        """Of the time since."""
        now = self._stream.metrics()
        count = now[_COUNT] - self._before[_COUNT]
        return Batches(count, 1000 * (now[_SUM] - self._before[_SUM]) / count if count else float("nan"))


def wait_for_rows(stream: Stream, groups: int) -> None:
    """Wait until the newest batch that was told of had so many groups."""
    deadline = time.monotonic() + _PATIENCE_S
    while stream.metrics().get("state_rows", 0) < groups:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{stream.metrics().get('state_rows')} of {groups} groups")
        time.sleep(_POLL_S)


def size_of(directory: Path) -> int:
    """Bytes that the files in it take, as far as they do not go away meanwhile; holes take nothing."""
    total = 0
    for file in directory.rglob("*"):
        try:
            if file.is_file():
                total += file.stat().st_blocks * _BLOCK
        except FileNotFoundError:
            continue
    return total
