"""What live brokers have shown in each script, kept in files: the core plays them in milliseconds.

A line is a record: its name, the mark of its sequence, the topics that were there if the game has to know
them, and the moves of a game with a live broker, which tell only what has changed of the group.

`make conformance` plays all scripts live, and renews each record that the core does not repeat. The core is
compared with both, so a record that it repeats still holds. Such a record stays as it is, because times and
chance differ from run to run.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tests.conformance.compare import mapped
from tests.conformance.differences import Known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.conformance.differences import KnownDifference
    from tests.conformance.game import Game, Result, Topic
    from tests.conformance.sequence import Sequence

__all__ = ["Recorded", "complaint", "read_records", "recorded", "replay", "write_records"]

_BYTES = "base64:"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Recorded(NamedTuple):
    """A script, and how a broker has played it."""

    name: str
    mark: Any
    topics: Mapping[str, Topic]
    moves: list[Any]


def recorded(game: type[Game], name: str, result: Result) -> Recorded:
    """Make a record of a game; what a broker makes up each time anew gets a number in its place."""
    line = _line(Recorded(name, game.mark(result.sequence), result.topics, result.moves))
    ids: dict[str, str] = {}
    return _read_line(game, _UUID.sub(lambda found: ids.setdefault(found[0], str(len(ids))), line))


def complaint(game: type[Game], name: str, result: Result, *, is_live: bool = False) -> str:
    """Say what is wrong with the result of a script; empty if it is what is expected of it.

    One that `is_live` goes on to its end, or to where a known difference begins. There its record ends.
    """
    difference = game.shows(name)
    if difference is None:
        expected_verdicts = ("same", "known") if is_live else ("same",)
        return "" if result.verdict in expected_verdicts else str(result)
    if result.verdict == "same":
        return f"no difference any more; take it off the list\n{result}"
    expected, found = (difference.kind, difference.theirs, difference.ours), result.difference
    is_expected = found is not None and (found.kind, found.theirs, found.ours) == expected
    return "" if result.verdict == "different" and is_expected else str(result)


def replay(
    game: type[Game],
    record: Recorded,
    shows: KnownDifference | None = None,
    sequence: Sequence[Any] | None = None,
    **where: Any,
) -> Result:
    """Play a record, or its moves with another `sequence`, against the core as `Game.play` does live.

    Of the known differences only `shows` counts. `where` is for the game: `group_id` and `partition`.
    """
    known = Known(game.differences, shows)
    played = game(sequence or game.played[record.name], known, record.topics, **where)
    with played.judged():
        played.replay(record.moves)
    return played.result


def read_records(game: type[Game]) -> dict[str, Recorded]:
    """Read all records, by name."""
    lines = [
        line
        for file in sorted(_folder(game).glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    records = [_read_line(game, line) for line in lines]
    return {record.name: record for record in records}


def write_records(game: type[Game], records: Iterable[Recorded]) -> None:
    """Write all records in place of those that are there: a file for each section of the scripts."""
    folder = _folder(game)
    lines: dict[Path, list[str]] = {}
    for record in sorted(records, key=lambda each: each.name):
        file = folder / f"{record.name.partition(':')[0].replace(' ', '_')}.jsonl"
        lines.setdefault(file, []).append(_line(record))
    folder.mkdir(exist_ok=True)
    for file in set(folder.glob("*.jsonl")) - lines.keys():
        file.unlink()
    for file, those in lines.items():
        file.write_text("\n".join(those) + "\n", encoding="utf-8")


def _folder(game: type[Game]) -> Path:
    return game.folder / "recorded"


def _line(record: Recorded) -> str:
    name, mark, topics, moves = record
    told = [name, mark, topics, moves] if topics else [name, mark, moves]
    plain = msgspec.to_builtins(told, builtin_types=(bytes,))
    return msgspec.json.encode(mapped(plain, _written)).decode()


def _read_line(game: type[Game], line: str) -> Recorded:
    name, mark, *topics, moves = msgspec.convert(mapped(msgspec.json.decode(line), _read), game.record)
    return Recorded(name, mark, topics[0] if topics else {}, moves)


def _written(value: Any) -> Any:
    return _BYTES + base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _read(value: Any) -> Any:
    is_bytes = isinstance(value, str) and value.startswith(_BYTES)
    return base64.b64decode(value.removeprefix(_BYTES)) if is_bytes else value
