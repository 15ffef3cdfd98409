"""What is noted when a query begins: the outage that is over, and how plans of its batches tell log time."""

from __future__ import annotations

from typing import Any

import pytest

from group_coordinator.checkpoints.ledger import Begun, Ledger, Notes
from group_coordinator.checkpoints.offset_log import newest_planned
from group_coordinator.checkpoints.outages import note_begin
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.outages import Outage
from tests.checkpoints.in_memory import Files, commit, plan

LATER_MS = 3_500
TEN_HOURS_MS = 36_000_000


@pytest.fixture
def files() -> Any:
    """Those of a checkpoint whose first query began at 100 s, by a clock that is right."""
    files: Any = Files()
    note(files, 100_000)
    return files


def note(files: Any, resumed_ms: int, ahead_ms: int = 0, **choices: Any) -> list[Outage]:
    """All outages once a query begins, as the next coordinator reads them, without the batches' numbers."""
    ledger, planned = Ledger.read(files), newest_planned(files)
    note_begin(ledger, planned, resumed_ms, ahead_ms, later_ms=LATER_MS, **choices)
    return [it._replace(batch=0) for it in notes_in(files).outages]


def notes_in(files: Any) -> Notes:
    return Ledger.read(files).notes


def newest_in(files: Any) -> Begun:
    return notes_in(files).begun[-1]


def test_a_new_checkpoint_has_had_none(files: Any) -> None:
    assert notes_in(files) == Notes(begun=(Begun(0, 0, LATEST_MS),))


# -- its begin ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_committed", [False, True])
def test_it_begins_with_the_latest_time_that_a_request_of_the_newest_batch_can_count_as(
    files: Any, is_committed: bool
) -> None:
    plan(files, 0, 101_000, 5)
    commit(files, 0, 100_500)
    plan(files, 1, 102_000, 5, watermark_ms=100_500)
    if is_committed:
        commit(files, 1, 101_500)
    assert note(files, 120_000) == [Outage(102_000 + LATER_MS, 120_000)]
    assert newest_in(files) == Begun(2, 0, LATEST_MS)


def test_log_time_is_told_as_the_query_knew_it_that_has_planned_the_batch(files: Any) -> None:
    plan(files, 0, 101_000)
    note(files, 110_000, ahead_ms=-40_000)
    # It has planned nothing, and the one after it has another clock.
    note(files, 120_000, ahead_ms=250)
    plan(files, 1, 121_000)
    note(files, 140_000, ahead_ms=-7_000)
    assert [it.start_ms for it in notes_in(files).outages] == [104_500, 110_000, 124_750]
    assert notes_in(files).begun == (
        Begun(0, 0, LATEST_MS),
        Begun(1, 250, LATEST_MS),
        Begun(2, -7_000, LATEST_MS),
    )


def test_a_query_that_has_planned_nothing_does_not_tell_what_came_before(files: Any) -> None:
    """It was back at once, and by its clock all of it came long ago."""
    plan(files, 0, 101_000)
    assert note(files, 103_000, ahead_ms=-50_000, catches_up=True) == []
    assert note(files, 120_000) == [Outage(104_500, 120_000)]


def test_deadlines_that_have_fired_were_before_it(files: Any) -> None:
    plan(files, 0, 101_000, watermark_ms=105_000)
    assert note(files, 120_000) == [Outage(105_000, 120_000)]


def test_deadlines_that_fire_next_were_before_it(files: Any) -> None:
    plan(files, 0, 101_000, watermark_ms=105_000)
    commit(files, 0, 106_000)
    assert note(files, 120_000) == [Outage(106_000, 120_000)]


def test_after_a_version_that_noted_no_begins_it_begins_with_the_watermark() -> None:
    files: Any = Files()
    plan(files, 0, 101_000, watermark_ms=99_000)
    assert note(files, 120_000) == [Outage(99_000, 120_000)]
    assert notes_in(files).begun == (Begun(1, 0, LATEST_MS),)


def test_one_that_ended_before_anything_was_read_goes_on(files: Any) -> None:
    plan(files, 0, 101_000)
    note(files, 120_000)
    assert note(files, 170_000) == [Outage(104_500, 120_000), Outage(120_000, 170_000)]
    # The same batch is the next one.
    assert [it.batch for it in notes_in(files).begun] == [0, 1]


def test_the_batch_that_was_running_does_not_know_of_it(files: Any) -> None:
    plan(files, 0, 101_000)
    note(files, 120_000)
    assert [len(notes_in(files).as_of(batch).outages) for batch in (0, 1)] == [0, 1]


def test_some_of_the_time_may_count(files: Any) -> None:
    plan(files, 0, 101_000)
    note(files, 120_000)
    assert note(files, 170_000, counts_ms=20_000)[1:] == [Outage(140_000, 170_000)]
    assert len(note(files, 180_000, counts_ms=20_000)) == 2


# -- a query that catches up -------------------------------------------------------------------------------


def test_what_a_query_that_catches_up_reads_came_before_it_began(files: Any) -> None:
    plan(files, 0, 101_000)
    note(files, 120_000, catches_up=True)
    assert newest_in(files) == Begun(1, 0, 120_000)
    # Its batches take their time.
    plan(files, 1, 130_000)
    plan(files, 2, 160_000)
    assert note(files, 161_000)[1:] == [Outage(120_000, 161_000)]
    assert newest_in(files) == Begun(3, 0, LATEST_MS)


def test_a_watermark_that_is_later_than_what_a_query_that_catches_up_reads_counts(files: Any) -> None:
    note(files, 120_000, catches_up=True)
    plan(files, 0, 160_000, watermark_ms=122_000)
    assert note(files, 161_000) == [Outage(122_000, 161_000)]


def test_what_a_query_that_catches_up_reads_may_seem_to_have_come_as_late_as_what_was_read_before(
    files: Any,
) -> None:
    """The batch before runs again with it, and its requests count as they did."""
    plan(files, 0, 101_000)
    note(files, 102_000, catches_up=True)
    assert newest_in(files) == Begun(1, 0, 101_000 + LATER_MS)


# -- clocks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resumed_ms", [104_500, 104_499, 90_000])
def test_a_query_that_is_back_before_that_time_has_not_been_away(files: Any, resumed_ms: int) -> None:
    plan(files, 0, 101_000)
    assert note(files, resumed_ms) == []
    assert newest_in(files).batch == 1
    assert note(files, 104_501) == [Outage(104_500, 104_501)]


def test_one_is_not_hidden_by_a_drivers_clock_that_had_jumped_far_ahead_before(files: Any) -> None:
    plan(files, 0, 101_000 + TEN_HOURS_MS, watermark_ms=100_500)
    # Nobody knows when it was planned, but that it was after its watermark.
    assert note(files, 120_000) == [Outage(100_500, 120_000)]
    plan(files, 1, 125_000)
    assert note(files, 160_000)[1:] == [Outage(125_000 + LATER_MS, 160_000)]


def test_what_is_caught_up_with_came_before_now_whatever_the_drivers_clock_said_before(files: Any) -> None:
    plan(files, 0, 101_000 + TEN_HOURS_MS, watermark_ms=100_500)
    note(files, 120_000, catches_up=True)
    assert newest_in(files) == Begun(1, 0, 120_000)
    plan(files, 1, 150_000)
    assert note(files, 160_000)[1:] == [Outage(120_000, 160_000)]


# -- a coordinator that creates no groups ------------------------------------------------------------------


def test_a_coordinator_that_creates_no_groups_goes_on_so(files: Any) -> None:
    plan(files, 0, 101_000)
    assert note(files, 120_000, closed=True) == [Outage(104_500, 120_000, closed=True)]
    # Another start, and one at which a broker's clock is behind: that it opens again is noted all the same.
    assert note(files, 130_000)[1:] == [Outage(120_000, 130_000, closed=True)]
    assert note(files, 110_000, closed=False)[2:] == [Outage(130_000, 130_001)]


def test_a_coordinator_that_has_not_been_away_and_creates_no_groups_from_now_on_notes_that(
    files: Any,
) -> None:
    plan(files, 0, 101_000)
    assert note(files, 102_000, closed=True) == [Outage(104_500, 104_501, closed=True)]


# -- how it is noted ---------------------------------------------------------------------------------------


def test_both_are_noted_at_once(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan(files, 0, 101_000)
    written: list[Notes] = []
    write = files.write

    def count(name: str, content: bytes) -> None:
        write(name, content)
        written.append(notes_in(files))

    monkeypatch.setattr(files, "write", count)
    note(files, 120_000)
    assert written == [
        Notes((Outage(104_500, 120_000, batch=1),), begun=(Begun(0, 0, LATEST_MS), Begun(1, 0, LATEST_MS)))
    ]
