"""What live brokers have shown in each script, kept in files.

A line is a record: its name, a checksum of its sequence, the topics that were there, and the moves of a game
with a live broker. A move has only what has changed of the group. Ids of topics are the broker's own, because
it goes by them; those of members that a coordinator makes up get a number in their place.
"""

from __future__ import annotations

import random
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.conformance.consumer.differences import DIFFERENCES
from tests.conformance.consumer.game import Move, Result
from tests.conformance.consumer.generator import random_sequence
from tests.conformance.consumer.scripted import SCRIPTS
from tests.conformance.consumer.sequence import Sequence
from tests.conformance.consumer.topics import Topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.conformance.consumer.differences import KnownDifference

__all__ = [
    "FOLDER",
    "PLAYED",
    "SHOWN",
    "Recorded",
    "checksum",
    "complaint",
    "read_records",
    "recorded",
    "write_records",
]

FOLDER = Path(__file__).with_name("recorded")
_DRAWN = range(45)
_MADE_UP = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

SHOWN: dict[str, KnownDifference] = {f"difference: {each.name}": each for each in DIFFERENCES}
"""The known differences by the names of their records."""

PLAYED: dict[str, Sequence] = (
    SCRIPTS
    | {name: difference.shown_by for name, difference in SHOWN.items()}
    | {f"drawn: {seed}": random_sequence(random.Random(seed)) for seed in _DRAWN}
)
"""All sequences that are recorded, by name."""


class Recorded(msgspec.Struct, frozen=True, array_like=True):
    """A script, and how a broker has played it."""

    name: str
    of: int
    """The checksum of its sequence, which follows from its name for as long as it stays the same."""
    topics: dict[str, Topic]
    moves: list[Move]

    @property
    def file(self) -> Path:
        """Where it is kept: by the section of the script."""
        return FOLDER / f"{self.name.partition(':')[0].replace(' ', '_')}.jsonl"


def recorded(name: str, result: Result) -> Recorded:
    """Make a record of a game."""
    ids: dict[str, str] = {}
    text = msgspec.json.encode(result.moves).decode()
    text = _MADE_UP.sub(lambda found: ids.setdefault(found[0], str(len(ids))), text)
    moves = msgspec.json.decode(text, type=list[Move])
    return Recorded(name, checksum(result.sequence), dict(result.topics), moves)


def complaint(name: str, result: Result) -> str:
    """Say what is wrong with the result of a script; empty if it is what is expected of it."""
    difference = SHOWN.get(name)
    if difference is None:
        # A script goes on to its end, or to where a known difference begins.
        return "" if result.verdict in ("same", "known") else str(result)
    if result.verdict in ("same", "known"):
        return f"no difference any more; take it off the list\n{result}"
    expected, found = (difference.kind, difference.theirs, difference.ours), result.difference
    is_expected = found is not None and (found.kind, found.theirs, found.ours) == expected
    return "" if result.verdict == "different" and is_expected else str(result)


def checksum(sequence: Sequence) -> int:
    """The same for the same sequence."""
    return zlib.crc32(msgspec.json.encode(sequence))


def read_records() -> dict[str, Recorded]:
    """Read all records, by name."""
    lines = [
        line
        for file in sorted(FOLDER.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    records = [msgspec.json.decode(line, type=Recorded) for line in lines]
    return {record.name: record for record in records}


def write_records(records: Iterable[Recorded]) -> None:
    """Write all records in place of those that are there."""
    lines: dict[Path, list[str]] = {}
    for record in sorted(records, key=lambda each: each.name):
        lines.setdefault(record.file, []).append(msgspec.json.encode(record).decode())
    FOLDER.mkdir(exist_ok=True)
    for file in set(FOLDER.glob("*.jsonl")) - lines.keys():
        file.unlink()
    for file, those in lines.items():
        file.write_text("\n".join(those) + "\n", encoding="utf-8")
