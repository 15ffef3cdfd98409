"""The core's consumer groups do what live brokers have shown in all scripts of tests/conformance/consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.conformance.consumer.game import ConsumerGame
from tests.conformance.game import Result
from tests.conformance.recorded import complaint, read_records, recorded, replay, write_records

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = read_records(ConsumerGame)
JOIN = "join: again, in a stable group"


@pytest.mark.parametrize("name", RECORDS)
def test_the_core_does_what_the_broker_did(name: str) -> None:
    result = replay(ConsumerGame, RECORDS[name], ConsumerGame.shows(name))

    assert not complaint(ConsumerGame, name, result), complaint(ConsumerGame, name, result)


def test_there_is_a_record_of_each_script_as_it_is() -> None:
    marks = {name: ConsumerGame.mark(sequence) for name, sequence in ConsumerGame.played.items()}

    assert {name: record.mark for name, record in RECORDS.items()} == marks, "run make conformance"


@pytest.mark.parametrize(
    "difference", [each for each in ConsumerGame.differences if each.begins], ids=lambda each: each.name
)
def test_a_difference_ends_a_sequence_where_it_begins(difference) -> None:
    name = f"difference: {difference.name}"

    result = replay(ConsumerGame, RECORDS[name])

    assert (result.verdict, result.reason) == ("known", difference.name)


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ({"group": "Empty 2/2 uniform"}, "group, group: the broker: Empty 2/2 uniform; the core: Stable"),
        (
            {"members": {"0": {"at": "@2 - -> -"}}},
            "group, members: the broker: @2 - -> -; the core: @2 a012345",
        ),
        ({"offsets": {"a0": 100}}, "group, offsets, a0: the broker: 100; the core: None"),
    ],
)
def test_what_the_broker_did_not_show_is_noticed(shown: dict[str, object], reason: str) -> None:
    record = RECORDS[JOIN]
    first, *rest = record.moves

    result = replay(ConsumerGame, record._replace(moves=[replace(first, shown=first.shown | shown), *rest]))

    assert result.verdict == "different"
    assert result.reason.startswith(reason)
    assert complaint(ConsumerGame, JOIN, result) == str(result)


@pytest.mark.parametrize("answer", ["@3", "@2 -", "!25", {"said": "@2", "error_code": 0}])
def test_what_the_broker_did_not_answer_is_noticed(answer: object) -> None:
    record = RECORDS[JOIN]
    first, *rest = record.moves

    result = replay(ConsumerGame, record._replace(moves=[replace(first, answer=answer), *rest]))

    assert (result.verdict, result.reason) == (
        "different",
        f"beat: the broker: {answer}; the core: @2 a012345",
    )


def test_only_a_live_game_may_end_where_a_known_difference_begins() -> None:
    result = Result(ConsumerGame.played[JOIN], verdict="known")

    assert complaint(ConsumerGame, JOIN, result)
    assert not complaint(ConsumerGame, JOIN, result, is_live=True)


@pytest.mark.parametrize(
    ("name", "slowness", "verdict"),
    [
        ("session: ends", 1, "same"),
        ("session: ends", 0.5, "different"),
        ("session: is kept by heartbeats", 1, "same"),
        ("session: is kept by heartbeats", 2, "different"),
    ],
)
def test_what_is_due_has_to_come_neither_early_nor_late(name: str, slowness: float, verdict: str) -> None:
    record = RECORDS[name]
    moves = [replace(move, at_ms=round(move.at_ms * slowness)) for move in record.moves]

    assert replay(ConsumerGame, record._replace(moves=moves)).verdict == verdict


def test_records_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGame, "folder", tmp_path)

    write_records(ConsumerGame, RECORDS.values())

    assert read_records(ConsumerGame) == RECORDS


def test_what_a_broker_makes_up_is_not_recorded() -> None:
    made_up = "a0-5c4b9dc3-df12-445a-ba36-5f2872610d3d"
    result = replay(ConsumerGame, RECORDS[JOIN])
    moves = [replace(result.moves[0], answer={"member_id": made_up, "leader": made_up})]

    record = recorded(ConsumerGame, JOIN, Result(result.sequence, result.topics, moves=moves))

    assert record.moves[0].answer == {"member_id": "a0-0", "leader": "a0-0"}
