"""What live brokers have shown in each script, kept in files: the core plays them in milliseconds.

A line is a record: the script's name, its sequence, and the moves of a game with a live broker. A look has
only what has changed since the look before. `make conformance` plays all scripts live, and renews each record
that the core does not repeat. The core is compared with both, so a record that it repeats still holds. Such a
record stays as it is, because times and chance differ from run to run.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tests.conformance.differences import DIFFERENCES, Known
from tests.conformance.game import Game, Look, Move, Result, Sent
from tests.conformance.scripted import PATIENT, SCRIPTS
from tests.conformance.sequence import Sequence, read_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.conformance.differences import KnownDifference

__all__ = [
    "FOLDER",
    "PLAYED",
    "SHOWN",
    "Recorded",
    "complaint",
    "read_records",
    "recorded",
    "replay",
    "write_records",
]

FOLDER = Path(__file__).with_name("recorded")
_REGRESSIONS = Path(__file__).with_name("regressions.txt").read_text(encoding="utf-8").splitlines()
_START_MS = 1_000_000
_BYTES = "base64:"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

SHOWN: dict[str, KnownDifference] = {f"difference: {each.name}": each for each in DIFFERENCES}
"""The known differences by the names of their records."""

PLAYED: dict[str, Sequence] = (
    SCRIPTS
    # Sequences in which the two once differed, as small as they could be made.
    | {f"regression: {place}": read_sequence(line) for place, line in enumerate(_REGRESSIONS)}
    | {name: difference.shown_by for name, difference in SHOWN.items()}
    | PATIENT
)
"""All sequences that are recorded, by name."""


class Recorded(msgspec.Struct, frozen=True):
    """A script, and how a broker has played it."""

    name: str
    sequence: Sequence
    moves: tuple[Move, ...]

    @property
    def file(self) -> Path:
        """Where it is kept: by the section of the script."""
        return FOLDER / f"{self.name.partition(':')[0].replace(' ', '_')}.jsonl"


def recorded(name: str, result: Result) -> Recorded:
    """Make a record of a game; what a broker makes up each time anew gets a number in its place."""
    text = msgspec.json.encode(_texts(result.moves)).decode()
    ids: dict[str, str] = {}
    text = _UUID.sub(lambda found: ids.setdefault(found[0], str(len(ids))), text)
    return Recorded(name, result.sequence, tuple(_moves(text)))


def complaint(name: str, result: Result) -> str:
    """Say what is wrong with the result of a script; empty if it is what is expected of it."""
    difference = SHOWN.get(name)
    if difference is None:
        return "" if result.verdict == "same" else str(result)
    if result.verdict == "same":
        return f"no difference any more; take it off the list\n{result}"
    expected, found = (difference.kind, difference.theirs, difference.ours), result.difference
    is_expected = found is not None and (found.kind, found.theirs, found.ours) == expected
    return "" if result.verdict == "different" and is_expected else str(result)


def replay(
    record: Recorded, shows: KnownDifference | None = None, group_id: str = "group", partition: int = 0
) -> Result:
    """Play a record against the core, as `driver.play` does with a live broker."""
    group_id = "" if record.sequence.nameless else group_id
    game = Game(record.sequence, group_id, Known(shows), _START_MS, partition)
    with game.judged():
        outcomes = None
        for move in record.moves:
            at_ms = _START_MS + move.at_ms
            if isinstance(move, Sent):
                if (request := game.request(move.step)) is None:
                    raise ValueError(f"{record.name}: step {move.step} sends nothing; record it again")
                outcomes = game.sent(request, at_ms)
            else:
                outcomes = game.core.pass_time(at_ms, outcomes)
                look = msgspec.structs.replace(move, at_ms=at_ms)
                if difference := game.compare(outcomes, look):
                    raise difference
                outcomes = None
    return game.result


def read_records() -> dict[str, Recorded]:
    """Read all records, by name."""
    records = {}
    for file in sorted(FOLDER.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            name, sequence, moves = msgspec.json.decode(line, type=tuple[str, Sequence, msgspec.Raw])
            records[name] = Recorded(name, sequence, tuple(_whole(_moves(moves))))
    return records


def write_records(records: Iterable[Recorded]) -> None:
    """Write all records in place of those that are there."""
    lines: dict[Path, list[str]] = {}
    for record in sorted(records, key=lambda each: each.name):
        line = msgspec.json.encode((record.name, record.sequence, _texts(_changes(record.moves))))
        lines.setdefault(record.file, []).append(line.decode())
    FOLDER.mkdir(exist_ok=True)
    for file in set(FOLDER.glob("*.jsonl")) - lines.keys():
        file.unlink()
    for file, those in lines.items():
        file.write_text("\n".join(those) + "\n", encoding="utf-8")


def _changes(moves: Iterable[Move]) -> list[Move]:
    """The moves, of each look only what has changed."""
    before: dict[str, Any] = {}
    changes: list[Move] = []
    for move in moves:
        if isinstance(move, Look):
            changed = {name: value for name, value in move.group.items() if before.get(name, ...) != value}
            changes.append(msgspec.structs.replace(move, group=changed))
            before = move.group
        else:
            changes.append(move)
    return changes


def _whole(changes: Iterable[Move]) -> list[Move]:
    """The moves of which `changes` tells what has changed."""
    shown: dict[str, Any] = {}
    moves: list[Move] = []
    for move in changes:
        if isinstance(move, Look):
            shown = shown | move.group
            moves.append(msgspec.structs.replace(move, group=shown))
        else:
            moves.append(move)
    return moves


def _moves(text: str | msgspec.Raw) -> list[Move]:
    moves = msgspec.json.decode(text, type=list[Move])
    return [
        Look(move.at_ms, _read(move.answers), _read(move.group)) if isinstance(move, Look) else move
        for move in moves
    ]


def _texts(moves: Iterable[Move]) -> Any:
    """The moves with their bytes as text."""
    return _written(msgspec.to_builtins(list(moves), builtin_types=(bytes,)))


def _written(value: Any) -> Any:
    match value:
        case bytes():
            return _BYTES + base64.b64encode(value).decode()
        case dict():
            return {name: _written(each) for name, each in value.items()}
        case list():
            return [_written(each) for each in value]
    return value


def _read(value: Any) -> Any:
    match value:
        case str() if value.startswith(_BYTES):
            return base64.b64decode(value.removeprefix(_BYTES))
        case dict():
            return {name: _read(each) for name, each in value.items()}
        case list():
            return [_read(each) for each in value]
    return value
