"""The core does what live brokers have shown in all scripts of tests/conformance."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from msgspec.structs import replace

import tests.conformance.recorded
from tests.conformance.differences import DIFFERENCES
from tests.conformance.game import Look, Result
from tests.conformance.recorded import PLAYED, SHOWN, complaint, read_records, recorded, replay, write_records

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = read_records()


@pytest.mark.parametrize("name", RECORDS)
def test_the_core_does_what_the_broker_did(name: str) -> None:
    result = replay(RECORDS[name], SHOWN.get(name))

    assert not complaint(name, result), complaint(name, result)


def test_there_is_a_record_of_each_script_as_it_is() -> None:
    assert {name: record.sequence for name, record in RECORDS.items()} == PLAYED, "run make conformance"


@pytest.mark.parametrize(
    "difference", [each for each in DIFFERENCES if each.begins], ids=lambda each: each.name
)
def test_a_difference_ends_a_sequence_where_it_begins(difference) -> None:
    result = replay(RECORDS[f"difference: {difference.name}"])

    assert (result.verdict, result.reason) == ("known", difference.name)


def test_what_the_broker_did_not_do_is_noticed() -> None:
    record = RECORDS["join: old join"]
    moves = [
        replace(move, group=move.group | {"group_state": "Empty"}) if isinstance(move, Look) else move
        for move in record.moves
    ]

    result = replay(replace(record, moves=tuple(moves)))

    assert (result.verdict, result.reason) == (
        "different",
        "description, group_state: the broker: 'Empty'; the core: 'CompletingRebalance'",
    )


def test_what_is_due_has_to_come_neither_early_nor_late() -> None:
    record = RECORDS["session: silence in a stable group"]
    verdicts = {}
    for change_ms in (-150, 0, 150):
        sequence = replace(
            record.sequence,
            steps=tuple(replace(step, session=step.session + change_ms) for step in record.sequence.steps),
        )
        verdicts[change_ms] = replay(replace(record, sequence=sequence)).verdict

    assert verdicts == {-150: "different", 0: "same", 150: "different"}


def test_records_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests.conformance.recorded, "FOLDER", tmp_path)
    (tmp_path / "gone.jsonl").write_text("a section that is not there any more")

    write_records(RECORDS.values())

    assert not (tmp_path / "gone.jsonl").exists()
    assert read_records() == RECORDS


def test_what_a_broker_makes_up_is_not_recorded() -> None:
    ids = [f"a0-r0-{uuid4()}", f"a1-r1-{uuid4()}"]
    looks = [Look(1, {"r0": {"member_id": ids[1], "metadata": b"\0\xff"}}, {"members": ids})]

    (look,) = recorded("join: old join", Result(PLAYED["join: old join"], moves=looks)).moves

    assert look == Look(
        1, {"r0": {"member_id": "a1-r1-0", "metadata": b"\0\xff"}}, {"members": ["a0-r0-1", "a1-r1-0"]}
    )
