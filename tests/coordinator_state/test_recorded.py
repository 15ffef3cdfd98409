"""The core does what live brokers have shown in all scripts of tests/conformance/classic."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from msgspec.structs import replace

from tests.conformance.classic.game import ClassicGame
from tests.conformance.classic.moves import Look
from tests.conformance.game import Result
from tests.conformance.recorded import complaint, read_records, recorded, replay, write_records

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = read_records(ClassicGame)


@pytest.mark.parametrize("name", RECORDS)
def test_the_core_does_what_the_broker_did(name: str) -> None:
    result = replay(ClassicGame, RECORDS[name], ClassicGame.shows(name))

    assert not complaint(ClassicGame, name, result), complaint(ClassicGame, name, result)


def test_there_is_a_record_of_each_script_as_it_is() -> None:
    assert {name: record.mark for name, record in RECORDS.items()} == ClassicGame.played, (
        "run make conformance"
    )


@pytest.mark.parametrize(
    "difference", [each for each in ClassicGame.differences if each.begins], ids=lambda each: each.name
)
def test_a_difference_ends_a_sequence_where_it_begins(difference) -> None:
    result = replay(ClassicGame, RECORDS[f"difference: {difference.name}"])

    assert (result.verdict, result.reason) == ("known", difference.name)


def test_what_the_broker_did_not_do_is_noticed() -> None:
    record = RECORDS["join: old join"]
    moves = [
        replace(move, group=move.group | {"group_state": "Empty"}) if isinstance(move, Look) else move
        for move in record.moves
    ]

    result = replay(ClassicGame, record._replace(moves=moves))

    assert (result.verdict, result.reason) == (
        "different",
        "description, group_state: the broker: 'Empty'; the core: 'CompletingRebalance'",
    )
    assert complaint(ClassicGame, record.name, result) == str(result)


def test_what_is_due_has_to_come_neither_early_nor_late() -> None:
    record = RECORDS["session: silence in a stable group"]
    verdicts = {}
    for change_ms in (-150, 0, 150):
        sequence = replace(
            record.mark,
            steps=tuple(replace(step, session=step.session + change_ms) for step in record.mark.steps),
        )
        verdicts[change_ms] = replay(ClassicGame, record, sequence=sequence).verdict

    assert verdicts == {-150: "different", 0: "same", 150: "different"}


def test_records_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassicGame, "folder", tmp_path)
    (tmp_path / "recorded").mkdir()
    (tmp_path / "recorded" / "gone.jsonl").write_text("a section that is not there any more")

    write_records(ClassicGame, RECORDS.values())

    assert not (tmp_path / "recorded" / "gone.jsonl").exists()
    assert read_records(ClassicGame) == RECORDS


def test_what_a_broker_makes_up_is_not_recorded() -> None:
    ids = [f"a0-r0-{uuid4()}", f"a1-r1-{uuid4()}"]
    looks = [Look(1, {"r0": {"member_id": ids[1], "metadata": b"\0\xff"}}, {"members": ids})]

    result = Result(ClassicGame.played["join: old join"], moves=looks)
    (look,) = recorded(ClassicGame, "join: old join", result).moves

    assert look == Look(
        1, {"r0": {"member_id": "a1-r1-0", "metadata": b"\0\xff"}}, {"members": ["a0-r0-1", "a1-r1-0"]}
    )
