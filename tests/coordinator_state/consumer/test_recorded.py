"""The core's consumer groups do what live brokers have shown in all scripts of tests/conformance/consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

import tests.conformance.consumer.recorded
from tests.conformance.consumer.differences import DIFFERENCES
from tests.conformance.consumer.game import Result
from tests.conformance.consumer.recorded import (
    PLAYED,
    SHOWN,
    checksum,
    complaint,
    read_records,
    recorded,
    write_records,
)
from tests.conformance.consumer.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = read_records()
JOIN = "join: again, in a stable group"


@pytest.mark.parametrize("name", RECORDS)
def test_the_core_does_what_the_broker_did(name: str) -> None:
    result = replay(RECORDS[name], PLAYED[name], SHOWN.get(name))

    assert not complaint(name, result), complaint(name, result)


def test_there_is_a_record_of_each_script_as_it_is() -> None:
    recorded_now = {name: record.of for name, record in RECORDS.items()}

    assert recorded_now == {name: checksum(sequence) for name, sequence in PLAYED.items()}, (
        "run python -m tests.conformance.consumer --record"
    )


@pytest.mark.parametrize(
    "difference", [each for each in DIFFERENCES if each.begins], ids=lambda each: each.name
)
def test_a_difference_ends_a_sequence_where_it_begins(difference) -> None:
    name = f"difference: {difference.name}"

    result = replay(RECORDS[name], PLAYED[name])

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

    result = replay(replace(record, moves=[replace(first, shown=first.shown | shown), *rest]), PLAYED[JOIN])

    assert result.verdict == "different"
    assert result.reason.startswith(reason)


@pytest.mark.parametrize("answer", ["@3", "@2 -", "!25", {"said": "@2", "error_code": 0}])
def test_what_the_broker_did_not_answer_is_noticed(answer: object) -> None:
    record = RECORDS[JOIN]
    first, *rest = record.moves

    result = replay(replace(record, moves=[replace(first, answer=answer), *rest]), PLAYED[JOIN])

    assert (result.verdict, result.reason) == (
        "different",
        f"beat: the broker: {answer}; the core: @2 a012345",
    )


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

    assert replay(replace(record, moves=moves), PLAYED[name]).verdict == verdict


def test_records_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests.conformance.consumer.recorded, "FOLDER", tmp_path)
    (tmp_path / "gone.jsonl").write_text("a section that is not there any more")

    write_records(RECORDS.values())

    assert not (tmp_path / "gone.jsonl").exists()
    assert read_records() == RECORDS


def test_what_a_broker_makes_up_is_not_recorded() -> None:
    made_up = "a0-5c4b9dc3-df12-445a-ba36-5f2872610d3d"
    result = replay(RECORDS[JOIN], PLAYED[JOIN])
    moves = [replace(result.moves[0], answer={"member_id": made_up, "leader": made_up})]

    record = recorded(JOIN, Result(result.sequence, result.topics, moves=moves))

    assert record.moves[0].answer == {"member_id": "a0-0", "leader": "a0-0"}
