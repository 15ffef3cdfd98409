"""Which records are asked for their own timestamps."""

from __future__ import annotations

from kafka.structs import TopicPartition

from group_coordinator.lag.book import GroupLag, PartitionLag
from group_coordinator.lag.course import Status
from group_coordinator.lag.stamps import Stamps
from group_coordinator.lag.trend import Direction, Trend

STEADY = Trend(Direction.STEADY)


def lag(
    number: int,
    committed: int = 5,
    *,
    topic: str = "orders",
    error_ms: int = 100,
    status: Status = Status.STALLED,
    is_at_least: bool = False,
) -> PartitionLag:
    return PartitionLag(TopicPartition(topic, number), committed, 9, 1_000, error_ms, is_at_least, status)


def group(*partitions: PartitionLag) -> list[GroupLag]:
    return [GroupLag("g", list(partitions), STEADY)]


def wanted(stamps: Stamps, groups: list[GroupLag], most: int = 10) -> list[tuple[int, int]]:
    found = stamps.wanted(groups, {"refused"}, most)
    return [(partition.partition, offset) for partition, offset in found.items()]


def test_the_least_certain_are_asked_for_first() -> None:
    groups = group(
        lag(0),
        lag(1, error_ms=300),
        lag(2, status=Status.OK, is_at_least=True, error_ms=0),
        lag(3, status=Status.OK),
        lag(4, committed=9),
        lag(5, topic="refused"),
    )
    assert wanted(Stamps(), groups) == [(2, 5), (1, 5), (0, 5)]
    assert wanted(Stamps(), groups, most=2) == [(2, 5), (1, 5)]
    assert wanted(Stamps(), groups, most=0) == []
    # Another group has left other records in the same partition: they have their turn.
    others = [*groups, *group(lag(2, 7, is_at_least=True, error_ms=0))]
    assert wanted(Stamps(), others, most=2) == [(2, 5), (1, 5)]


def test_a_timestamp_holds_until_the_group_has_gone_on() -> None:
    stamps, partition = Stamps(), TopicPartition("orders", 0)
    groups = group(lag(0, is_at_least=True), lag(1, status=Status.OK))
    stamps.take({partition: 5}, {partition: 2_000})
    assert wanted(stamps, groups) == []
    (found,) = stamps.applied(groups, 10_000)
    by_record, other = found.partitions
    assert by_record == lag(0)._replace(age_ms=8_000, error_ms=0, is_by_record=True)
    assert other == lag(1, status=Status.OK)
    # A producer's clock that is ahead makes no record of the future.
    assert stamps.applied(groups, 1_000)[0].partitions[0].age_ms == 0
    stamps.applied(group(lag(0, 6)), 10_000)
    assert wanted(stamps, groups) == [(0, 5)]


def test_a_record_without_a_timestamp_is_not_asked_for_again() -> None:
    stamps, partition = Stamps(), TopicPartition("orders", 0)
    stamps.take({partition: 5}, {partition: -1})
    groups = group(lag(0))
    assert stamps.applied(groups, 10_000) == groups
    assert wanted(stamps, groups) == []
