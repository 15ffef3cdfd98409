"""The notes of a checkpoint about time: one file, one reader, and a writer that overwrites nobody's notes."""

from __future__ import annotations

from typing import Any

import pytest

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.ledger import FILE, Begun, Ledger, Notes
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill
from tests.checkpoints.in_memory import Files


@pytest.fixture
def files() -> Any:
    return Files()


def begun(batch: int, ahead_ms: int = 0, until_ms: int = LATEST_MS) -> Begun:
    return Begun(batch, ahead_ms, until_ms)


def test_a_new_checkpoint_has_none(files: Any) -> None:
    ledger = Ledger.read(files)
    assert ledger.notes == ledger.notes.as_of(7) == Notes()
    assert ledger.notes.begun_of(7) is None
    assert ledger.reached_ms == 0
    assert files.read(FILE) is None


def test_all_kinds_are_in_one_file_and_read_as_they_were_noted(files: Any) -> None:
    ledger = Ledger.read(files)
    ledger.begin(begun(0, ahead_ms=-250))
    ledger.begin(begun(3, until_ms=20), Outage(10, 20))
    ledger.begin_standstills({1: 15, 0: 17}, batch=4)
    ledger.end_standstills({0}, 25, batch=6)
    ledger.begin(begun(6), Outage(30, 40, closed=True))
    assert Ledger.read(files).notes == ledger.notes
    assert ledger.notes == Notes(
        (Outage(10, 20), Outage(30, 40, closed=True)),
        (Standstill(1, 15, batch=4), Standstill(0, 17, 25, batch=4, end_batch=6)),
        (begun(0, ahead_ms=-250), begun(3, until_ms=20), begun(6)),
    )
    assert ledger.reached_ms == 40


def test_it_is_read_once_and_before_each_note(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    known = files.read
    monkeypatch.setattr(files, "read", lambda name: read.append(name) or known(name))
    Ledger.read(files).begin(begun(3), Outage(10, 20))
    read.clear()
    ledger = Ledger.read(files)
    for _ in range(100):
        assert (list(ledger.notes.outages), ledger.notes.standstills) == ([Outage(10, 20)], ())
        assert (ledger.notes.begun_of(3), ledger.standing) == (begun(3), {})
    ledger.begin_standstills({0: 30}, batch=4)
    assert read == [FILE, FILE]


def test_a_begin_and_its_outage_are_there_together(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(files, "write", lambda _, content: written.append(content))
    Ledger.read(files).begin(begun(3), Outage(10, 20))
    assert len(written) == 1


def test_the_notes_of_a_coordinator_that_came_after_this_one_are_not_overwritten(files: Any) -> None:
    paused, after = Ledger.read(files), Ledger.read(files)
    after.begin(begun(2, ahead_ms=1), Outage(10, 20))
    after.begin_standstills({1: 25}, batch=2)
    paused.begin(begun(3, ahead_ms=2), Outage(5, 6))
    assert Ledger.read(files).notes == Notes(
        (Outage(10, 20), Outage(5, 6)),
        (Standstill(1, 25, batch=2),),
        (begun(2, ahead_ms=1), begun(3, ahead_ms=2)),
    )


# -- standstills -------------------------------------------------------------------------------------------


def test_a_standstill_is_kept_from_its_begin_to_its_end(files: Any) -> None:
    ledger = Ledger.read(files)
    ledger.begin_standstills({0: 50, 2: 50}, batch=4)
    assert ledger.standing == {0: Standstill(0, 50, batch=4), 2: Standstill(2, 50, batch=4)}
    over = Standstill(0, 50, 70, batch=4, end_batch=6)
    assert ledger.end_standstills({0, 1}, 70, batch=6) == [over]
    assert ledger.reached_ms == 70
    assert ledger.end_standstills({0}, 90, batch=7) == []
    ledger.begin_standstills({0: 100}, batch=8)
    # A clock that is behind makes none of no length.
    short = Standstill(0, 100, 101, batch=8, end_batch=9)
    assert ledger.end_standstills({0}, 40, batch=9) == [short]
    assert (
        Ledger.read(files).notes.standstills
        == ledger.notes.standstills
        == (over, Standstill(2, 50, batch=4), short)
    )


def test_a_batch_that_runs_again_knows_the_standstills_that_it_knew(files: Any) -> None:
    ledger = Ledger.read(files)
    ledger.begin_standstills({0: 50}, batch=4)
    ledger.begin_standstills({1: 60}, batch=5)
    ledger.end_standstills({0}, 70, batch=6)
    ledger.begin_standstills({0: 100}, batch=8)
    notes = Ledger.read(files).notes
    begins, ends = Standstill(0, 50, batch=4), Standstill(0, 50, 70, batch=4, end_batch=6)
    other, again = Standstill(1, 60, batch=5), Standstill(0, 100, batch=8)
    known = {it: notes.as_of(it).standstills for it in range(3, 10)}
    assert known == {
        3: (),
        4: (begins,),
        5: (begins, other),
        6: (ends, other),
        7: (ends, other),
        8: (ends, other, again),
        9: notes.standstills,
    }


def test_a_standstill_that_was_over_before_a_batch_was_planned_is_known_with_its_end(files: Any) -> None:
    ledger = Ledger.read(files)
    ledger.begin_standstills({0: 50}, batch=4)
    ledger.end_standstills({0}, 70, batch=4)
    assert ledger.notes.as_of(3).standstills == ()
    assert ledger.notes.as_of(4).standstills == (Standstill(0, 50, 70, batch=4, end_batch=4),)


def test_a_batch_that_runs_again_knows_of_all_outages_and_begins(files: Any) -> None:
    """Outages begin after all that it has decided."""
    ledger = Ledger.read(files)
    ledger.begin(begun(3), Outage(10, 20))
    ledger.begin(begun(6), Outage(30, 40))
    assert ledger.notes.as_of(0) == ledger.notes


def test_old_standstills_are_forgotten_unless_they_last(files: Any) -> None:
    over = tuple(Standstill(0, 2 * it, 2 * it + 1) for it in range(1, 1_000))
    ledger = Ledger(files, Notes(standstills=(Standstill(1, 0), *over)))
    ledger.begin_standstills({2: 5_000}, batch=7)
    last = Standstill(2, 5_000, batch=7), Standstill(3, 6_000, batch=8)
    assert ledger.notes.standstills == (Standstill(1, 0), *over, last[0])
    ledger.begin_standstills({3: 6_000}, batch=8)
    assert Ledger.read(files).notes.standstills == (Standstill(1, 0), *over[1:], *last)


def test_the_newest_thousand_outages_are_kept(files: Any) -> None:
    ledger = Ledger(files, Notes(tuple(Outage(2 * it, 2 * it + 1) for it in range(1_000))))
    ledger.begin(begun(7), Outage(5_000, 6_000))
    kept = Ledger.read(files).notes.outages
    assert (len(kept), kept[0], kept[-1]) == (1_000, Outage(2, 3), Outage(5_000, 6_000))


# -- begins of queries -------------------------------------------------------------------------------------


def test_a_batch_is_of_the_query_that_has_planned_it(files: Any) -> None:
    ledger = Ledger.read(files)
    for batch in (1, 4, 5):
        ledger.begin(begun(batch, ahead_ms=batch))
    notes = Ledger.read(files).notes
    # That of before the first one was a version that noted none.
    assert notes.begun_of(0) is None
    first_of = [it.batch for it in map(notes.begun_of, range(1, 8)) if it is not None]
    assert first_of == [1, 1, 1, 4, 5, 5, 5]


def test_a_query_that_has_planned_nothing_is_none_of_a_batch(files: Any) -> None:
    ledger = Ledger.read(files)
    ledger.begin(begun(2))
    ledger.begin(begun(4, ahead_ms=1, until_ms=100))
    ledger.begin(begun(4, ahead_ms=2), Outage(100, 120))
    assert Ledger.read(files).notes.begun == (begun(2), begun(4, ahead_ms=2))


def test_a_begin_that_is_noted_late_is_none_of_newer_batches(files: Any) -> None:
    """A coordinator wakes up that was to begin with batch 5, and another one has begun with batch 9."""
    paused, after = Ledger.read(files), Ledger.read(files)
    after.begin(begun(9, ahead_ms=1))
    paused.begin(begun(5, ahead_ms=2, until_ms=100))
    notes = Ledger.read(files).notes
    assert (notes.begun_of(5), notes.begun_of(9)) == (
        begun(5, ahead_ms=2, until_ms=100),
        begun(9, ahead_ms=1),
    )


def test_the_newest_hundred_begins_are_kept(files: Any) -> None:
    ledger = Ledger(files, Notes(begun=tuple(begun(it) for it in range(100))))
    ledger.begin(begun(200))
    notes = Ledger.read(files).notes
    assert notes.begun == (*(begun(it) for it in range(1, 100)), begun(200))
    assert notes.begun_of(0) is None


def test_a_request_counts_as_a_little_after_its_plan_at_the_latest_and_as_of_its_query() -> None:
    reads_on, catches_up = begun(0, ahead_ms=-250), begun(0, ahead_ms=-250, until_ms=102_000)
    assert (reads_on.latest_ms(100_000, 3_500), reads_on.latest_ms(100_000, 0)) == (103_250, 99_750)
    assert (catches_up.latest_ms(100_000, 3_500), catches_up.latest_ms(90_000, 3_500)) == (102_000, 93_250)


# -- what other versions have written, and nobody ----------------------------------------------------------


def test_a_ledger_of_a_version_that_noted_no_batches_is_read(files: Any) -> None:
    files.write(
        FILE, b'{"outages":[[10,20,false]],"standstills":[[1,15,18],[0,30,null]],"shifts":[[1,5,-12000]]}'
    )
    ledger = Ledger.read(files)
    assert ledger.notes == Notes((Outage(10, 20),), (Standstill(1, 15, 18), Standstill(0, 30)))
    assert ledger.notes.begun_of(7) is None
    # It runs no batch again that did not know of them.
    assert ledger.notes.as_of(0) == ledger.notes
    ledger.end_standstills({0}, 40, batch=7)
    ledger.begin(begun(7), Outage(35, 45))
    notes = Ledger.read(files).notes
    assert notes == Notes(
        (Outage(10, 20), Outage(35, 45)),
        (Standstill(1, 15, 18), Standstill(0, 30, 40, end_batch=7)),
        (begun(7),),
    )
    assert notes.as_of(6).standstills == (Standstill(1, 15, 18), Standstill(0, 30))


@pytest.mark.parametrize("text", [b"[]", b'{"outages":[7]}', b'{"standstills":[[1]]}', b'{"begun":[[7,0]]}'])
def test_a_file_that_cannot_be_read_is_refused(files: Any, text: bytes) -> None:
    files.write(FILE, text)
    with pytest.raises(CheckpointError, match=rf"{FILE}.* cannot be read: .*; restore"):
        Ledger.read(files)
