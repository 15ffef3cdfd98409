"""Which records are asked for their own timestamps."""

from __future__ import annotations

from kafka.structs import TopicPartition

from group_coordinator.lag.book import GroupLag, PartitionLag, Place
from group_coordinator.lag.course import Status
from group_coordinator.lag.stamps import Seen, Stamps, Wanted
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


def place(number: int, committed: int = 5) -> Place:
    return TopicPartition("orders", number), committed, False


def wanted(stamps: Stamps, groups: list[GroupLag], most: int = 10) -> list[tuple[int, int]]:
    found = stamps.wanted(groups, {"refused"}, most)
    return [(partition.partition, it.first) for (partition, *_), it in found.items()]


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
    stamps = Stamps()
    groups = group(lag(0, is_at_least=True), lag(1, status=Status.OK))
    stamps.take({place(0): Seen(5, 2_000)})
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
    stamps = Stamps()
    stamps.take({place(0): Seen(5, -1)})
    groups = group(lag(0))
    assert stamps.applied(groups, 10_000) == groups
    assert wanted(stamps, groups) == []


def test_what_stands_still_is_asked_for_although_it_is_well() -> None:
    stamps, groups = Stamps(), group(lag(0, status=Status.OK), lag(1, 9, status=Status.OK))
    assert wanted(stamps, groups) == []
    stamps.applied(groups, 0)
    assert wanted(stamps, groups) == [(0, 5)]
    # The group has gone on, or the log has.
    assert wanted(stamps, group(lag(0, 6, status=Status.OK))) == []
    assert wanted(stamps, group(lag(0, status=Status.OK)._replace(end=10))) == []


def test_nothing_is_behind_where_no_record_is_left() -> None:
    stamps, groups = Stamps(), group(lag(0, is_at_least=True))
    # Not all of it was read in time, and the next question goes on from there.
    stamps.take({place(0): Seen(7, None)})
    assert stamps.applied(groups, 10_000) == groups
    assert (stamps.first(place(0)), stamps.first(place(1))) == (7, 5)
    later = group(lag(0, is_at_least=True)._replace(first=7))
    assert stamps.wanted(later, (), 10) == {place(0): Wanted(7, 9)}
    stamps.take({place(0): Seen(9, None)})
    (found,) = stamps.applied(groups, 10_000)
    assert found.partitions == [
        lag(0)._replace(age_ms=0, error_ms=0, is_at_least=False, status=Status.OK),
    ]
    assert found.records == 4
    assert stamps.wanted(group(lag(0, is_at_least=True)._replace(first=9)), (), 10) == {}


def test_what_a_group_cannot_read_is_not_asked_for() -> None:
    open_transaction = lag(0, is_at_least=True)._replace(reads_committed=True, first=5, readable_end=5)
    assert Stamps().wanted(group(open_transaction), (), 10) == {}
    # Another group has left records in it, that it can read.
    other = lag(0, is_at_least=True)
    assert Stamps().wanted(group(open_transaction, other), (), 10) == {place(0): Wanted(5, 9)}
