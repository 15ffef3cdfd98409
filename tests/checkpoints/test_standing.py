"""From when on time stands still for the groups of a partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from group_coordinator.checkpoints.ledger import Begun, Ledger, Notes
from group_coordinator.checkpoints.offset_log import newest_planned
from group_coordinator.checkpoints.standing import note_standstills, stands_since
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill
from tests.checkpoints.in_memory import Files, commit, plan

WATERMARK_MS = 50_000
ASKED_MS = 52_000
LATER_MS = 3_500
LOOK_BACK_MS = 12_000
AN_HOUR_MS = 3_600_000


class Log:
    """Two partitions with a request a second, at `times_ms`. A batch has read all of them but the last."""

    def __init__(self) -> None:
        files: Any = Files()
        self.files = files
        self.ledger = Ledger.read(files)
        self.ledger.begin(Begun(0, 0, LATEST_MS))
        self.times_ms = {0: [*range(39_000, 50_000, 1_000)], 1: [*range(39_000, 50_000, 1_000)]}
        self.asked: list[tuple[Any, Any]] = []
        plan(files, 4, 45_000, 5, 5, watermark_ms=44_000)
        plan(files, 5, 50_500, 10, 10, watermark_ms=49_000)
        commit(files, 5, WATERMARK_MS)

    def times_of(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, Sequence[int]]:
        """As `append_times`, which leaves out partitions in which there is nothing."""
        self.asked.append((begins, ends))
        times = {it: self.times_ms[it][max(begins[it], 0) : ends[it]] for it in ends}
        return {partition: each for partition, each in times.items() if each}

    def note(self, *partitions: int, asked_ms: int = ASKED_MS) -> list[int]:
        return note_standstills(
            self.ledger,
            newest_planned(self.files),
            "requests",
            dict.fromkeys(partitions, asked_ms),
            self.times_of,
            later_ms=LATER_MS,
            look_back_ms=LOOK_BACK_MS,
        )

    @property
    def begins(self) -> list[int]:
        """When those begin that last."""
        return [it.start_ms for it in self.ledger.standing.values()]


@pytest.fixture
def log() -> Log:
    return Log()


# -- of the log --------------------------------------------------------------------------------------------


def test_it_begins_with_the_newest_request_of_the_partition_and_not_before_the_watermark(log: Log) -> None:
    assert log.note(0) == [0]
    log.times_ms[1][9] = 50_400
    assert log.note(0, 1) == [1]
    assert log.begins == [WATERMARK_MS, 50_400]
    assert log.note(0, 1) == []


def test_the_next_batch_is_the_first_that_knows_of_it(log: Log) -> None:
    """Whichever ran when it was noted may run again, in another query, and does not know."""
    log.note(0)
    begun = Standstill(0, WATERMARK_MS, batch=6)
    notes = Ledger.read(log.files).notes
    assert [notes.as_of(it).standstills for it in (5, 6)] == [(), (begun,)]


def test_requests_that_were_not_read_yet_are_not_looked_at(log: Log) -> None:
    log.times_ms[0][10] = 51_500
    log.note(0)
    assert (log.begins, [ends for _, ends in log.asked]) == ([WATERMARK_MS], [{0: 10}])


def test_those_that_are_known_and_those_that_take_requests_are_not_looked_at(log: Log) -> None:
    log.note(0)
    log.asked.clear()
    assert log.note(0) == []
    log.note(0, 1)
    assert [ends for _, ends in log.asked] == [{1: 10}]


def test_a_partition_without_requests_stands_since_the_watermark(log: Log) -> None:
    plan(log.files, 5, 50_500, 0, watermark_ms=49_000)
    assert log.note(0, 1) == [0, 1]
    assert log.begins == [WATERMARK_MS, WATERMARK_MS]


def test_a_batch_that_was_running_has_its_own_watermark(log: Log) -> None:
    plan(log.files, 6, 51_000, 10, 10, watermark_ms=50_200)
    log.note(0)
    assert log.begins == [50_200]


def test_what_lies_in_an_outage_or_in_the_standstill_before_counts_as_of_its_end(log: Log) -> None:
    outages = (Outage(10, 20), Outage(49_000, 55_000), Outage(57_000, 58_000))
    over = (Standstill(0, 54_000, 57_500), Standstill(1, 54_000, 70_000))
    log.ledger = Ledger(log.ledger.files, Notes(outages, over, log.ledger.notes.begun))
    log.ledger.write()
    log.note(0)
    assert log.begins == [58_000]
    log.ledger.end_standstills({0}, 59_000, batch=6)
    # Nothing of the partition was decided since.
    log.note(0)
    assert log.begins == [59_000]


def test_the_watermark_may_be_of_before_the_standstill_before(log: Log) -> None:
    """No batch has ended since, and two of a partition do not overlap."""
    over = (Standstill(0, 54_000, 57_500), Standstill(1, 52_000, 53_000), Standstill(0, 51_000, 51_500))
    log.ledger = Ledger(log.ledger.files, Notes((), over, log.ledger.notes.begun))
    log.ledger.write()
    log.note(0, 1)
    assert log.begins == [57_500, 53_000]


def test_nobody_is_there_before_the_first_batch(log: Log) -> None:
    log.files.written.clear()
    assert log.note(0) == []
    assert log.begins == log.asked == []


# -- how far back it is looked -----------------------------------------------------------------------------


@pytest.mark.parametrize(("planned_ms", "begins_ms"), [(38_500, 50_000), (38_501, 52_500)])
def test_a_request_of_a_batch_some_time_ago_may_be_the_latest(
    log: Log, planned_ms: int, begins_ms: int
) -> None:
    """Its broker's clock was set back since, by less than clocks may differ. Many have come after it."""
    log.times_ms[0] = [WATERMARK_MS] * 300
    log.times_ms[0][30] = 52_500
    plan(log.files, 3, 30_000, 30, 0)
    plan(log.files, 4, planned_ms, 31, 0)
    plan(log.files, 5, 50_500, 300, 0, watermark_ms=49_000)
    log.note(0)
    assert log.begins == [begins_ms]


def test_as_many_requests_are_looked_at_as_may_be_marks_of_transactions(log: Log) -> None:
    """No batch has read any for a while, and the last offsets are no records."""
    log.times_ms[0] = [*[0] * 200, 50_700, *[0] * 99]
    for batch in (3, 4, 5):
        plan(log.files, batch, 10_000 * batch, 300, 0, watermark_ms=49_000)
    log.note(0)
    assert (log.begins, log.asked) == ([50_700], [({0: 200}, {0: 300})])


# -- clocks that are wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "since_ms"),
    [
        ([], WATERMARK_MS),
        ([49_000], WATERMARK_MS),
        ([51_000, 50_500], 51_000),
        ([ASKED_MS + LATER_MS], ASKED_MS + LATER_MS),
        # That clock is wrong, and nobody knows when the request came.
        ([ASKED_MS + LATER_MS + 1], WATERMARK_MS),
        ([51_000, AN_HOUR_MS], 51_000),
        ([53_000, AN_HOUR_MS], 53_000),
        # The clock was wrong, and is right again.
        ([AN_HOUR_MS, 51_000], 51_000),
        ([AN_HOUR_MS, 49_000], WATERMARK_MS),
    ],
)
def test_a_request_is_no_later_than_the_first_probe_that_was_not_taken(
    times: list[int], since_ms: int
) -> None:
    assert stands_since(times, ASKED_MS + LATER_MS, WATERMARK_MS, ()) == since_ms


@pytest.mark.parametrize(
    ("read_ms", "since_ms"), [(50_999, 50_999), (51_000, 53_000), (52_500, 53_000), (53_000, 53_000)]
)
def test_outages_are_those_of_before(read_ms: int, since_ms: int) -> None:
    outages = [Outage(52_000, 53_000), Outage(51_000, 52_000), Outage(60_000, 61_000)]
    assert stands_since([read_ms], ASKED_MS + LATER_MS, WATERMARK_MS, outages) == since_ms


@pytest.mark.parametrize(("seems_ms", "begins_ms"), [(54_000, 54_000), (54_001, WATERMARK_MS)])
def test_no_request_counts_as_later_than_the_plan_of_the_newest_batch(
    log: Log, seems_ms: int, begins_ms: int
) -> None:
    """The probe may be of a process that has begun since. It may lie in an outage."""
    log.times_ms[0][9] = seems_ms
    log.note(0, asked_ms=53_000)
    assert log.begins == [begins_ms]


def test_each_partition_is_judged_by_its_own_probe(log: Log) -> None:
    log.times_ms = {it: [*[AN_HOUR_MS] * 8, 51_500, AN_HOUR_MS, 0] for it in (0, 1)}
    log.note(0, asked_ms=51_500 - LATER_MS - 1)
    log.note(0, 1, asked_ms=51_500 - LATER_MS)
    assert log.begins == [WATERMARK_MS, 51_500]
