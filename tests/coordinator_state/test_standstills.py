"""Which outages count for a group, where some partitions stood still."""

from __future__ import annotations

import pytest

from group_coordinator.coordinator_state.log import PROBE, Record
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.partitioning import partition_for_key
from group_coordinator.coordinator_state.standstills import PartitionOutages, Standstill

KEYS = {partition_for_key(b"g%d" % it, 2): b"g%d" % it for it in range(20)}


@pytest.mark.parametrize(
    ("outages", "standstills", "expected"),
    [
        ([(10, 20)], [(1, 20, 90)], [(10, 20)]),
        ([(10, 20)], [(0, 20, 90)], [(10, 20), (20, 90)]),
        ([(10, 20)], [(0, 20, 90), (0, 120, 150)], [(10, 20), (20, 90), (120, 150)]),
        # Within it nothing happens; an outage that goes on after it begins with its end.
        ([(10, 20), (30, 40), (80, 95)], [(0, 20, 90)], [(10, 20), (20, 90), (90, 95)]),
        ([(10, 20), (90, 95)], [(0, 20, 90)], [(10, 20), (20, 90), (90, 95)]),
        # While it lasts no time passes.
        ([(10, 20), (30, 40)], [(0, 20, None)], [(10, 20), (30, 40)]),
    ],
)
def test_a_standstill_is_an_outage_for_its_partition_alone(
    outages: list[tuple[int, int]],
    standstills: list[tuple[int, int, int | None]],
    expected: list[tuple[int, int]],
) -> None:
    everywhere = [Outage(*each) for each in outages]
    known = PartitionOutages(everywhere, [Standstill(*each) for each in standstills], 2)
    assert list(known.of(KEYS[0])) == [Outage(*each) for each in expected]
    assert list(known.of(None)) == everywhere


def test_a_batch_knows_a_standstill_as_it_was_then() -> None:
    stood = Standstill(0, 20, 90, batch=4, end_batch=6)
    lasts = Standstill(0, 20, batch=4)
    assert [stood.as_of(batch) for batch in (3, 4, 5, 6)] == [None, lasts, lasts, stood]
    assert [lasts.as_of(batch) for batch in (3, 4)] == [None, lasts]


def test_time_passes_up_to_a_standstill_that_lasts_for_its_partition_alone() -> None:
    known = PartitionOutages([], [Standstill(0, 20)], 2)
    assert [known.reached_ms(key, 50) for key in (KEYS[0], KEYS[1], None)] == [20, 50, 50]
    assert known.reached_ms(KEYS[0], 10) == 10


def test_no_group_is_created_after_a_standstill_either_if_there_are_as_many_as_there_may_be() -> None:
    known = PartitionOutages([Outage(10, 20), Outage(30, 40, closed=True)], [Standstill(0, 20, 90)], 2)
    assert known.of(KEYS[0]).closed_at(90)
    assert not known.of(KEYS[0]).closed_at(89)


def test_only_a_standstill_that_lasts_stops_decisions() -> None:
    known = PartitionOutages([], [Standstill(0, 20, None), Standstill(1, 20, 30)], 2)
    assert [known.stands_for(KEYS[it]) for it in (0, 1)] == [Standstill(0, 20), None]
    assert known.stands_for(None) is None
    assert PartitionOutages([], [], 2).stands_for(KEYS[0]) is None


def test_a_probe_is_known_by_its_missing_key_and_its_value() -> None:
    probe = Record("requests", 0, 7, 1_000, None, PROBE)
    assert probe.is_probe
    assert not probe._replace(key=b"orders").is_probe
    assert not probe._replace(value=b"{}").is_probe
