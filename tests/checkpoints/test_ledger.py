"""The notes of a checkpoint about time: one file, one reader, and a writer that overwrites nobody's notes."""

from __future__ import annotations

from typing import Any

import pytest

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.ledger import FILE, Ledger, Notes
from group_coordinator.checkpoints.shifts import Shift
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill
from tests.checkpoints.in_memory import Files


@pytest.fixture
def files() -> Any:
    return Files()


def test_a_new_checkpoint_has_none(files: Any) -> None:
    ledger = Ledger.read(files)
    assert ledger.notes == Notes()
    assert ledger.reached_ms == 0
    assert files.read(FILE) is None


def test_all_kinds_are_in_one_file_and_read_as_they_were_noted(files: Any) -> None:
    ledger = Ledger.read(files)
    ledger.add_outage(Outage(10, 20))
    ledger.begin_standstills({1: 15})
    ledger.put_shifts([Shift(1, 5, -12_000), Shift(0, 7, 3)])
    ledger.add_outage(Outage(30, 40, closed=True))
    assert Ledger.read(files).notes == ledger.notes
    assert ledger.notes == Notes(
        (Outage(10, 20), Outage(30, 40, closed=True)),
        (Standstill(1, 15),),
        (Shift(1, 5, -12_000), Shift(0, 7, 3)),
    )
    assert ledger.reached_ms == 40


def test_it_is_read_once_and_before_each_note(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    known = files.read
    monkeypatch.setattr(files, "read", lambda name: read.append(name) or known(name))
    Ledger.read(files).add_outage(Outage(10, 20))
    read.clear()
    ledger = Ledger.read(files)
    for _ in range(100):
        assert (list(ledger.outages), ledger.standstills, ledger.shifts) == ([Outage(10, 20)], (), ())
        assert ledger.standing == {}
    ledger.begin_standstills({0: 30})
    assert read == [FILE, FILE]


def test_the_notes_of_a_coordinator_that_came_after_this_one_are_not_overwritten(files: Any) -> None:
    paused, after = Ledger.read(files), Ledger.read(files)
    after.add_outage(Outage(10, 20))
    after.begin_standstills({1: 25})
    paused.add_outage(Outage(5, 6))
    assert Ledger.read(files).notes == Notes((Outage(10, 20), Outage(5, 6)), (Standstill(1, 25),))


def test_a_standstill_is_kept_from_its_begin_to_its_end(files: Any) -> None:
    ledger = Ledger.read(files)
    ledger.begin_standstills({0: 50, 2: 50})
    assert ledger.standing == {0: Standstill(0, 50), 2: Standstill(2, 50)}
    assert ledger.end_standstills({0, 1}, 70) == [Standstill(0, 50, 70)]
    assert ledger.reached_ms == 70
    assert ledger.end_standstills({0}, 90) == []
    ledger.begin_standstills({0: 100})
    # A clock that is behind makes none of no length.
    assert ledger.end_standstills({0}, 40) == [Standstill(0, 100, 101)]
    kept = (Standstill(0, 50, 70), Standstill(2, 50), Standstill(0, 100, 101))
    assert Ledger.read(files).standstills == ledger.standstills == kept


def test_old_standstills_are_forgotten_unless_they_last(files: Any) -> None:
    over = tuple(Standstill(0, 2 * it, 2 * it + 1) for it in range(1, 1_000))
    ledger = Ledger(files, Notes(standstills=(Standstill(1, 0), *over)))
    ledger.begin_standstills({2: 5_000})
    assert ledger.standstills == (Standstill(1, 0), *over, Standstill(2, 5_000))
    ledger.begin_standstills({3: 6_000})
    last = (Standstill(2, 5_000), Standstill(3, 6_000))
    assert Ledger.read(files).standstills == (Standstill(1, 0), *over[1:], *last)


def test_the_newest_thousand_outages_are_kept(files: Any) -> None:
    ledger = Ledger(files, Notes(tuple(Outage(2 * it, 2 * it + 1) for it in range(1_000))))
    ledger.add_outage(Outage(5_000, 6_000))
    kept = Ledger.read(files).outages
    assert (len(kept), kept[0], kept[-1]) == (1_000, Outage(2, 3), Outage(5_000, 6_000))


def test_the_newest_thousand_shifts_are_kept_and_the_newest_of_each_partition(files: Any) -> None:
    ledger = Ledger.read(files)
    ledger.put_shifts([Shift(1, 1, 1), Shift(1, 2, 2), *(Shift(0, it, it) for it in range(1_001))])
    kept = Ledger.read(files).shifts
    assert (len(kept), kept[:2], kept[-1]) == (
        1_001,
        (Shift(1, 2, 2), Shift(0, 1, 1)),
        Shift(0, 1_000, 1_000),
    )


def test_a_checkpoint_of_a_version_that_had_a_file_for_each_kind_is_read(files: Any) -> None:
    files.write("outages.json", b"[[10,20]]")
    files.write("shifts.json", b"[[1,5,-12000]]")
    ledger = Ledger.read(files)
    assert ledger.notes == Notes((Outage(10, 20),), (), (Shift(1, 5, -12_000),))
    ledger.begin_standstills({0: 30})
    files.write("outages.json", b"[]")
    assert Ledger.read(files).notes == Notes((Outage(10, 20),), (Standstill(0, 30),), (Shift(1, 5, -12_000),))


@pytest.mark.parametrize(
    ("name", "text"), [(FILE, b"[]"), (FILE, b'{"outages":[7]}'), ("shifts.json", b"{}")]
)
def test_a_file_that_cannot_be_read_is_refused(files: Any, name: str, text: bytes) -> None:
    files.write(name, text)
    with pytest.raises(CheckpointError, match=rf"{name}.* cannot be read: .*; restore"):
        Ledger.read(files)
