from __future__ import annotations

from typing import Any

import pytest

from group_coordinator.checkpoints import jumps
from group_coordinator.checkpoints.jumps import note_shifts
from group_coordinator.checkpoints.ledger import Ledger
from group_coordinator.checkpoints.offset_log import PlannedBatch
from group_coordinator.checkpoints.shifts import Guard, Measured, Shift
from tests.checkpoints.in_memory import Files

PLANNED_MS = 100_000


def batch(number: int, next_watermark_ms: int | None, *ends: int) -> PlannedBatch:
    return PlannedBatch(
        batch_id=number,
        watermark_ms=99_000,
        timestamp_ms=PLANNED_MS,
        offsets={"requests": dict(enumerate(ends)), "clock": {0: 7}},
        next_watermark_ms=next_watermark_ms,
        conf={},
    )


class Log:
    """Two partitions of 100 records each, and a batch of them; the second one's clock is 12 s ahead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        files: Any = Files()
        self.ledger = Ledger.read(files)
        self.newest: PlannedBatch | None = batch(5, None, 100, 100)
        self.read: list[Any] = []
        monkeypatch.setattr(jumps, "newest_planned", lambda _: self.newest)
        monkeypatch.setattr(jumps, "read_batch", lambda _, number: batch(number, 1, 98, 0))
        monkeypatch.setattr(jumps, "append_times", self.append_times)

    def append_times(self, _config: Any, topic: str, begins: Any, ends: Any) -> Any:
        self.read.append(({topic: begins}, {topic: ends}))
        ahead_ms = (0, 12_000)
        return {
            number: [
                (offset, PLANNED_MS - 100 + offset + ahead_ms[number])
                for offset in range(begins[number], ends[number])
            ]
            for number in ends
        }

    def note(
        self,
        driver_ahead_ms: int = 0,
        most: int = 200,
        ahead_ms: dict[int, float] | None = None,
        measured_at_ms: int = PLANNED_MS,
    ) -> list[Shift]:
        guard = Guard(driver_ahead_ms, 3_500, 3_000)
        measured = {it: Measured(each, measured_at_ms, 0, 0) for it, each in (ahead_ms or {}).items()}
        _, noted = note_shifts(
            self.ledger, {}, "requests", guard, differ_ms=3_000, most=most, measured=measured
        )
        return noted


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def test_the_batch_that_was_refused_counts_as_of_when_it_was_planned(log: Log) -> None:
    assert log.note() == [Shift(1, 100, -11_999)]
    assert list(log.ledger.shifts) == [Shift(1, 0, -11_999)]
    # From where the batch before ends.
    assert log.read == [({"requests": {0: 98, 1: 0}}, {"requests": {0: 100, 1: 100}})]
    # So it is accepted.
    assert log.note() == []


@pytest.mark.parametrize(("most", "first"), [(10, 90), (102, 0), (105, 0)])
def test_a_batch_that_had_no_room_for_all_counts_as_of_the_watermark(log: Log, most: int, first: int) -> None:
    """Its records may have waited, and time has waited for them. Spark rounds for each partition."""
    assert log.note(most=most) == [Shift(1, 100, -12_999)]
    assert list(log.ledger.shifts) == [Shift(1, first, -12_999)]
    # From where the batch before ends, and no more than a batch has.
    assert log.read == [({"requests": {0: 98, 1: first}}, {"requests": {0: 100, 1: 100}})]
    assert log.note(most=most) == []


def test_a_batch_that_had_room_for_one_more_had_room(log: Log) -> None:
    assert log.note(most=106) == [Shift(1, 100, -11_999)]


def test_a_partition_whose_clock_was_measured_counts_by_that(log: Log) -> None:
    assert log.note(ahead_ms={0: 0.2, 1: 12_004.4}) == [Shift(1, 100, -12_004)]


def test_a_clock_that_was_measured_before_it_has_jumped_is_not_put_right_by_that(log: Log) -> None:
    assert log.note(ahead_ms={1: 0}, measured_at_ms=PLANNED_MS - 1) == [Shift(1, 100, -11_999)]


def test_a_clock_that_was_measured_to_be_right_again_since_is_put_right_by_that(log: Log) -> None:
    assert log.note(ahead_ms={1: 0}) == [Shift(1, 100, -11_999), Shift(1, 100, 0)]


def test_nothing_is_noted_if_it_was_the_drivers_clock_that_jumped(log: Log) -> None:
    log.note(driver_ahead_ms=12_000)
    # Of partition 0 the clock is behind then, by less than it may be earlier than the watermark.
    assert list(log.ledger.shifts) == []


def test_a_first_batch_is_read_as_far_back_as_one_may_be(log: Log) -> None:
    log.newest = batch(0, None, 100, 5)
    log.note(most=10)
    assert log.read[0][0] == {"requests": {0: 90, 1: 0}}


# -- what was measured -------------------------------------------------------------------------------------


def note_measured(log: Log, **ahead_ms: float) -> list[Shift]:
    measured = {int(partition[1:]): Measured(it, PLANNED_MS, 0, 0) for partition, it in ahead_ms.items()}
    shifts, noted = note_shifts(
        log.ledger, {}, "requests", None, differ_ms=1_500, most=200, measured=measured
    )
    assert all(shifts.newest_ms(partition) == shift_ms for partition, _, shift_ms in noted)
    return noted


@pytest.mark.parametrize("next_watermark_ms", [None, 99_500])
def test_what_is_not_planned_counts_as_it_was_measured(log: Log, next_watermark_ms: int | None) -> None:
    log.newest = batch(5, next_watermark_ms, 100, 70)
    assert note_measured(log, p0=1_500.4, p1=-2_500.4) == [Shift(1, 70, 2_500)]
    assert list(log.ledger.shifts) == [Shift(1, 70, 2_500)]
    assert note_measured(log, p0=-1_500.4, p1=-1_000) == []
    # Of a partition that is new the batch knows nothing.
    assert note_measured(log, p2=9_000) == []


def test_requests_that_no_batch_has_read_count_as_before_if_they_came_before_the_jump(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 3,000 in partition 1, and with a clock that jumps ahead by 12 s at offset 2,950."""

    def append_times(_config: Any, _topic: str, begins: Any, ends: Any) -> Any:
        log.read.append((begins, ends))
        times = [(it, PLANNED_MS + it + 12_000 * (it >= 2_950)) for it in range(3_000)]
        return {1: times[begins[1] : ends[1]]}

    monkeypatch.setattr(jumps, "append_times", append_times)
    measured = {1: Measured(12_000, PLANNED_MS + 4_000, 3_000, PLANNED_MS + 3_000)}
    _, noted = note_shifts(log.ledger, {}, "requests", None, differ_ms=1_500, most=200, measured=measured)
    assert noted == list(log.ledger.shifts) == [Shift(1, 2_950, -12_000)]
    # However many wait there.
    assert log.read == [({1: 2_000}, {1: 3_000})]


def test_a_clock_that_was_measured_to_be_right_again_needs_no_shift(log: Log) -> None:
    note_measured(log, p0=9_000, p1=9_000)
    log.newest = batch(6, 99_500, 100, 120)
    # Nothing was decided of what comes after offset 100 of partition 0.
    assert note_measured(log, p0=-1_400, p1=1_400) == [Shift(0, 100, 0), Shift(1, 120, 0)]
    assert list(log.ledger.shifts) == [Shift(1, 100, -9_000), Shift(0, 100, 0), Shift(1, 120, 0)]


def test_what_was_noted_for_a_batch_that_was_refused_holds_for_it(log: Log) -> None:
    assert log.note(ahead_ms={1: 12_004}) == [Shift(1, 100, -12_004)]
    assert note_measured(log, p1=0) == [Shift(1, 100, 0)]
    assert list(log.ledger.shifts) == [Shift(1, 0, -12_004), Shift(1, 100, 0)]


def test_without_a_batch_nothing_is_noted(log: Log) -> None:
    log.newest = None
    assert note_measured(log, p0=9_000) == []


@pytest.mark.parametrize("newest", [None, batch(5, 99_500, 100, 100)])
def test_a_batch_that_is_done_is_not_looked_at(log: Log, newest: PlannedBatch | None) -> None:
    log.newest = newest
    assert log.note() == []
    assert log.read == []
