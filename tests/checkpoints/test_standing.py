"""From when on time stands still for the groups of a partition."""

from __future__ import annotations

from typing import Any

import pytest

from group_coordinator.checkpoints import standing
from group_coordinator.checkpoints.ledger import Ledger, Notes
from group_coordinator.checkpoints.shifts import Shift
from group_coordinator.checkpoints.standing import note_standstills
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill
from tests.checkpoints.in_memory import Files
from tests.checkpoints.test_jumps import batch

WATERMARK_MS = 50_000


class Log:
    """Two partitions, each with requests at `newest_ms`. The last one is not read yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        files: Any = Files()
        self.ledger = Ledger.read(files)
        self.newest_ms = 40_000
        self.planned: Any = batch(5, WATERMARK_MS, 99, 99)
        monkeypatch.setattr(standing, "newest_planned", lambda _: self.planned)
        monkeypatch.setattr(standing, "readable_ends", lambda *it: dict.fromkeys(it[2], 100))
        monkeypatch.setattr(standing, "newest_ms", self.newest)
        monkeypatch.setattr(standing, "read_before", lambda *_: {})

    def newest(self, _config: Any, _topic: str, _begins: Any, ends: dict[int, int], shifts: Any) -> int:
        ((partition, end),) = ends.items()
        return self.newest_ms + shifts.at(partition, end - 1) if end else 0

    def note(self, *partitions: int, resumed_ms: int = 90_000) -> list[int]:
        return note_standstills(self.ledger, {}, "requests", partitions, resumed_ms, look_back_ms=12_000)

    @property
    def begins(self) -> list[int]:
        """When those begin that last."""
        return [it.start_ms for it in self.ledger.standing.values()]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def test_it_begins_with_the_newest_request_of_the_partition_and_not_before_the_watermark(log: Log) -> None:
    assert log.note(0) == [0]
    log.newest_ms = 60_000
    log.ledger.put_shifts([Shift(1, 7, 1_000)])
    assert log.note(0, 1) == [1]
    assert log.begins == [WATERMARK_MS, 61_000]
    assert log.note(0, 1) == []


def test_what_lies_in_an_outage_or_in_the_standstill_before_counts_as_of_its_end(log: Log) -> None:
    outages = (Outage(10, 20), Outage(49_000, 55_000), Outage(57_000, 58_000))
    over = (Standstill(0, 54_000, 57_500), Standstill(1, 54_000, 70_000))
    log.ledger = Ledger(log.ledger.files, Notes(outages, over))
    log.note(0)
    assert log.begins == [58_000]
    log.ledger.end_standstills({0}, 59_000)
    # Nothing of the partition was decided since.
    log.note(0)
    assert log.begins == [59_000]


def test_a_request_that_comes_when_it_is_noted_is_none_of_before(log: Log) -> None:
    log.newest_ms = 90_001
    log.planned = batch(5, WATERMARK_MS, 0, 0)
    log.note(0)
    assert log.begins == [90_000]


def test_a_request_that_was_decided_came_before_also_by_a_clock_that_is_ahead(log: Log) -> None:
    log.newest_ms = 91_000
    log.note(0)
    assert log.begins == [91_000]


def test_nobody_is_there_before_the_first_batch(log: Log) -> None:
    log.planned = None
    assert log.note(0) == []
    assert log.begins == []
