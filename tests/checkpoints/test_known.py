"""What a batch knows of the ledger: the same when it runs again in another query."""

from __future__ import annotations

from typing import Any

import pytest

from group_coordinator.checkpoints.known import Known, OfGroup
from group_coordinator.checkpoints.ledger import Begun, Ledger
from group_coordinator.coordinator_state.clocks import Leeway, Span
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.partitioning import partition_for_key
from tests.checkpoints.in_memory import Files

LEEWAY = Leeway(later_ms=3_500, earlier_ms=3_000)
PARTITIONS = 2
KEYS = b"orders", b"g"
"""Of groups in partitions 0 and 1."""


@pytest.fixture
def ledger() -> Ledger:
    files: Any = Files()
    return Ledger.read(files)


def known_to(ledger: Ledger, batch: int, key: bytes | None = KEYS[0]) -> OfGroup:
    """What the batch with that number knows for a group: it was planned at 102 s by the driver's clock."""
    notes = Ledger.read(ledger.files).notes
    return Known(notes, batch, PARTITIONS, LEEWAY).of(key, 102_000, 100_000)


def span(planned_ms: int, watermark_ms: int, until_ms: int = LATEST_MS) -> Span:
    return Span(watermark_ms, watermark_ms - 3_000, planned_ms + 3_500, planned_ms, until_ms)


def test_the_keys_are_in_both_partitions() -> None:
    assert [partition_for_key(key, PARTITIONS) for key in KEYS] == [0, 1]


def test_log_time_is_told_as_of_the_query_that_has_planned_the_batch(ledger: Ledger) -> None:
    ledger.begin(Begun(3, 250, 101_000))
    ledger.begin(Begun(5, -40_000, LATEST_MS), Outage(101_000, 160_000))
    assert known_to(ledger, 2).span is None
    for batch in (3, 4):
        assert known_to(ledger, batch).span == span(102_250, 100_000, 101_000)
    # The clock of the machine was set, and the watermark is right.
    assert known_to(ledger, 5).span == span(100_000, 100_000)


def test_all_is_read_that_came_before_the_outage_of_a_query_that_reads_on(ledger: Ledger) -> None:
    """Until it has read a tick the watermark does not say so. Clocks may differ by 3.5 s."""
    ledger.begin(Begun(3, 0, 104_000), Outage(60_000, 104_000, batch=3))
    ledger.begin(Begun(4, 0, LATEST_MS), Outage(104_000, 104_500, batch=4))
    # One that catches up may read what came before its own.
    ledger.begin(Begun(6, 0, 110_000), Outage(108_000, 110_000, batch=6))
    known = [known_to(ledger, batch) for batch in range(3, 7)]
    assert [it.span for it in known] == [
        span(102_000, 100_000, 104_000),
        span(102_000, 100_500),
        span(102_000, 100_500),
        span(102_000, 100_500, 110_000),
    ]
    assert {it.watermark_ms for it in known} == {100_000}


def test_what_waits_in_a_partition_that_stands_is_older(ledger: Ledger) -> None:
    ledger.begin(Begun(3, 0, LATEST_MS), Outage(104_000, 105_000, batch=3))
    ledger.begin_standstills({0: 99_000}, batch=3)
    assert known_to(ledger, 3).span == span(102_000, 99_000, 99_000)
    assert known_to(ledger, 3, KEYS[1]).span == span(102_000, 100_500)


def test_outages_are_known_to_all(ledger: Ledger) -> None:
    ledger.begin(Begun(3, 0, LATEST_MS))
    ledger.begin(Begun(5, 0, LATEST_MS), Outage(110_000, 160_000))
    assert [list(known_to(ledger, batch).outages) for batch in (2, 4, 5)] == [[Outage(110_000, 160_000)]] * 3


def test_a_standstill_holds_time_up_from_the_batch_on_that_knows_of_it(ledger: Ledger) -> None:
    ledger.begin(Begun(0, 0, LATEST_MS))
    ledger.begin_standstills({0: 99_000}, batch=4)
    ledger.end_standstills({0}, 101_500, batch=6)
    before, stands = known_to(ledger, 3), known_to(ledger, 4)
    assert (before.watermark_ms, before.stands, before.span) == (100_000, False, span(102_000, 100_000))
    assert (stands.watermark_ms, stands.stands) == (99_000, True)
    assert stands.span == span(102_000, 99_000, until_ms=99_000)
    assert list(before.outages) == list(stands.outages) == []
    assert known_to(ledger, 5).span == stands.span
    over = known_to(ledger, 6)
    assert (over.watermark_ms, over.stands) == (100_000, False)
    assert list(over.outages) == [Outage(99_000, 101_500, batch=6)]
    # What came in it may be read now.
    assert over.span == span(102_000, 100_000)._replace(earliest_ms=96_000)


@pytest.mark.parametrize("key", [KEYS[1], None])
def test_groups_of_other_partitions_and_records_without_a_key_know_none(
    ledger: Ledger, key: bytes | None
) -> None:
    ledger.begin(Begun(0, 0, LATEST_MS))
    ledger.begin_standstills({0: 99_000}, batch=4)
    known = known_to(ledger, 4, key)
    assert (known.watermark_ms, known.stands, known.span) == (100_000, False, span(102_000, 100_000))


def test_while_it_stands_also_what_a_query_catches_up_with_counts_as_of_then(ledger: Ledger) -> None:
    ledger.begin(Begun(0, 0, 98_000))
    ledger.begin_standstills({0: 99_000}, batch=0)
    assert known_to(ledger, 0).span == span(102_000, 99_000, until_ms=98_000)


def test_a_query_that_catches_up_may_read_in_each_batch_what_waited_in_a_partition(ledger: Ledger) -> None:
    """One that reads on has read that with its first batch."""
    ledger.begin_standstills({0: 50_000, 1: 60_000}, batch=1)
    ledger.end_standstills([0, 1], 97_000, batch=3)
    ledger.begin(Begun(3, 0, 98_000), Outage(90_000, 98_000, batch=3))
    ledger.begin(Begun(6, 0, LATEST_MS), Outage(98_000, 99_000, batch=6))
    earliest_ms = [known.span.earliest_ms for batch in range(3, 8) if (known := known_to(ledger, batch)).span]
    assert earliest_ms == [47_000, 47_000, 47_000, 97_000, 97_000]


def test_a_partition_may_have_stopped_in_an_outage(ledger: Ledger) -> None:
    """Its standstill begins when that is over, or several that follow each other."""
    for batch, (start_ms, end_ms) in enumerate([(20_000, 30_000), (40_000, 50_000), (50_000, 60_000)]):
        ledger.begin(Begun(batch, 0, LATEST_MS), Outage(start_ms, end_ms, batch=batch))
    ledger.begin_standstills({0: 60_000}, batch=2)
    ledger.end_standstills([0], 97_000, batch=3)
    # Before its end is noted it may take requests again.
    for batch in 2, 3:
        found = known_to(ledger, batch).span
        assert found is not None
        assert found.earliest_ms == 37_000


def test_the_span_is_one_for_all_groups_of_a_partition(ledger: Ledger) -> None:
    """It is looked for once for each group in a batch of thousands."""
    ledger.begin(Begun(0, 0, LATEST_MS))
    known = Known(ledger.notes, 0, PARTITIONS, LEEWAY)
    first = known.of(KEYS[0], 102_000, 100_000)
    assert known.of(KEYS[0], 102_000, 100_000).span is first.span
    assert known.of(KEYS[0], 102_001, 100_000).span == span(102_001, 100_000)
    assert known.of(KEYS[0], 102_000, 100_001).span == span(102_000, 100_001)
