"""What the load writes down: what it asked, what it was told, and what each member owned when.

Times are wall-clock times in ms. The load, the broker and the coordinator run on one machine, so they compare
with the log's.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Self

import msgspec

__all__ = [
    "AnyNote",
    "Ended",
    "Failed",
    "GaveUp",
    "Heard",
    "Notebook",
    "Owned",
    "Sent",
    "now_ms",
    "read_notes",
]


class Note(msgspec.Struct, frozen=True, kw_only=True, tag_field="note"):
    """`client_id` is one life of one program; it is never used again."""

    at_ms: int
    client_id: str


class Sent(Note, frozen=True, kw_only=True, tag="sent"):
    """A request was handed to Kafka's client, which delivers it as soon as it can."""

    request_id: str
    api: str
    member_id: str


class Heard(Note, frozen=True, kw_only=True, tag="heard"):
    """An answer has arrived."""

    request_id: str
    error: str | None


class Owned(Note, frozen=True, kw_only=True, tag="owned"):
    """The listener was told of an assignment; `units` are the member's from here on."""

    group_id: str
    member_id: str
    generation_id: int
    units: list[str]


class GaveUp(Note, frozen=True, kw_only=True, tag="gave_up"):
    """The listener has returned from giving everything up: it was revoked, or lost."""

    lost: bool


class Ended(Note, frozen=True, kw_only=True, tag="ended"):
    """The program is gone: `how` is one of closed, stayed (closed without leaving) and crashed."""

    how: str


class Failed(Note, frozen=True, kw_only=True, tag="failed"):
    """The project's client raised what it should not have."""

    error: str


AnyNote = Sent | Heard | Owned | GaveUp | Ended | Failed


class Notebook:
    """Notes as JSON lines. Each is in the file before `write` returns, whatever happens then."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, note: AnyNote) -> None:
        line = msgspec.json.encode(note) + b"\n"
        with self._lock:
            self._file.write(line)


def read_notes(paths: list[Path]) -> list[AnyNote]:
    """All notes, in the order of their times."""
    decode = msgspec.json.Decoder(AnyNote).decode
    notes = [decode(line) for path in paths for line in path.read_bytes().splitlines()]
    return sorted(notes, key=lambda note: note.at_ms)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
