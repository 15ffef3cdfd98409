"""The book of commits and ends, and the metrics made of it."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from kafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from group_coordinator.coordinator_state.newest import header
from group_coordinator.coordinator_state.offsets.still_there import Found
from group_coordinator.lag.book import Book, GroupLag, Place
from group_coordinator.lag.commits import Commits
from group_coordinator.lag.course import Status
from group_coordinator.lag.metrics import LagMetrics
from group_coordinator.lag.settings import LagSettings

ORDERS = [TopicPartition("orders", number) for number in range(3)]
UNIT = TopicPartition("eu", 0)


def everybody(_group_id: str) -> bool:
    return True


def records(groups: list[GroupLag]) -> dict[str, list[int]]:
    return {each.group_id: [it.records for it in each.partitions] for each in groups}


# -- the book ----------------------------------------------------------------------------------------------


def test_a_group_has_the_lag_of_each_partition_with_a_log() -> None:
    book = Book(everybody, 10)
    for partition, offset in ((ORDERS[1], 3), (ORDERS[0], 7), (UNIT, 1)):
        book.committed("billing", partition, 1_000, offset)
    book.committed("audit", ORDERS[0], 1_000, 12)
    assert book.partitions == {ORDERS[0], ORDERS[1], UNIT}
    groups = book.measure(2_000, {ORDERS[0]: 10, ORDERS[1]: 5})
    # One may have committed what the brokers have not told of yet.
    assert records(groups) == {"audit": [0], "billing": [3, 2]}
    assert [each.partition for each in groups[1].partitions] == ORDERS[:2]
    assert groups[1].records == 5
    book.deleted("billing", ORDERS[0])
    book.deleted("billing", ORDERS[0])
    book.deleted("audit", ORDERS[0])
    assert records(book.measure(3_000, {ORDERS[1]: 6})) == {"billing": [3]}


def test_a_topic_that_was_made_again_has_no_lag_until_the_group_commits_for_it() -> None:
    book, first = Book(everybody, 10), ORDERS[0]
    book.committed("billing", first, 0, 9, "before")
    book.committed("billing", ORDERS[1], 0, 9)
    assert book.topics_with_ids == {"orders"}
    ends = dict.fromkeys(ORDERS[:2], 20)
    assert records(book.measure(0, ends, topics={"orders": Found(3, "before")})) == {"billing": [11, 11]}
    for topic in (Found(3, "now"), Found(0)):
        assert records(book.measure(1_000, ends, topics={"orders": topic})) == {"billing": [11]}
    book.committed("billing", first, 2_000, 5, "now")
    (group,) = book.measure(3_000, ends, topics={"orders": Found(3, "now")})
    assert [each.records for each in group.partitions] == [15, 11]
    assert group.partitions[0].status is Status.OK, "it has not gone back"
    book.committed("billing", first, 4_000, 4)
    (group,) = book.measure(5_000, ends, topics={"orders": Found(3, "later")})
    assert (group.partitions[0].records, group.partitions[0].status) == (16, Status.REWOUND)


def test_the_age_is_that_of_the_first_record_that_is_left() -> None:
    book = Book(everybody, 10)
    book.committed("billing", ORDERS[0], 0, 10)
    book.measure(0, {ORDERS[0]: 10})
    ((lag,),) = (each.partitions for each in book.measure(10_000, {ORDERS[0]: 20}))
    assert (lag.age_ms, lag.error_ms, lag.is_at_least) == (9_000, 9_000, False)
    book.committed("late", ORDERS[0], 10_000, 5)
    (_, late) = book.measure(20_000, {ORDERS[0]: 20})
    assert (late.partitions[0].age_ms, late.partitions[0].is_at_least) == (20_000, True)


def test_a_group_is_left_out_whole_if_there_are_too_many_partitions() -> None:
    book = Book(everybody, 3)
    for group_id in ("a", "b"):
        for partition in ORDERS:
            book.committed(group_id, partition, 0, 1)
    assert book.left_out == {"b"}
    assert records(book.measure(0, dict.fromkeys(ORDERS, 2))) == {"a": [1, 1, 1]}
    for partition in ORDERS:
        book.deleted("a", partition)
    book.committed("c", ORDERS[0], 0, 0)
    assert records(book.measure(0, dict.fromkeys(ORDERS, 2))) == {"c": [2]}


def test_a_group_that_has_left_no_record_is_behind_by_nothing() -> None:
    """What it has left is the marker that ends a transaction. A record that follows is no old one."""
    reached: dict[Place, int] = {}
    book = Book(everybody, 10, first=lambda place: reached.get(place, place[1]))
    book.committed("g", ORDERS[0], 0, 10)
    ((lag,),) = (each.partitions for each in book.measure(0, {ORDERS[0]: 11}))
    assert (lag.records, lag.first, lag.is_at_least) == (1, 10, True)
    reached[ORDERS[0], 10, False] = 11
    for at_ms in range(10_000, 300_000, 10_000):
        ((lag,),) = (each.partitions for each in book.measure(at_ms, {ORDERS[0]: 11}))
        assert (lag.records, lag.age_ms, lag.is_at_least, lag.status) == (1, 0, False, Status.OK)
    ((lag,),) = (each.partitions for each in book.measure(300_000, {ORDERS[0]: 12}))
    # It was written since the last measurement, and the group gets time to see it.
    assert (lag.records, lag.age_ms, lag.error_ms, lag.status) == (2, 0, 10_000, Status.OK)


def test_a_group_that_commits_before_a_marker_again_and_again_does_not_stall() -> None:
    reached = {(ORDERS[0], 10, False): 11}
    book = Book(everybody, 10, first=lambda place: reached.get(place, place[1]))
    for at_ms in range(0, 200_000, 10_000):
        book.committed("g", ORDERS[0], at_ms, 10)
        book.measure(at_ms, {ORDERS[0]: 11})
    ((lag,),) = (each.partitions for each in book.measure(200_000, {ORDERS[0]: 12}))
    assert lag.status is Status.OK


def test_an_open_transaction_is_behind_for_those_who_read_it() -> None:
    book = Book(everybody, 10, reads_committed=lambda group_id: group_id == "etl")
    for group_id in ("etl", "orders"):
        book.committed(group_id, ORDERS[0], 0, 10)
    assert book.partitions_of_committed == {ORDERS[0]}
    book.measure(0, {ORDERS[0]: 10}, {ORDERS[0]: 10})
    etl, orders = book.measure(10_000, {ORDERS[0]: 15}, {ORDERS[0]: 10})
    assert [(it.records, it.age_ms) for it in (*etl.partitions, *orders.partitions)] == [(5, 0), (5, 8_000)]


@pytest.mark.parametrize(
    ("levels", "committed"),
    [
        ("", []),
        ("read_uncommitted", []),
        ("read_committed", ["etl-1", "orders", "a=b"]),
        ("etl-*=read_committed", ["etl-1"]),
        (" etl-1 = read_uncommitted , *=read_committed", ["orders", "a=b"]),
        ("a=b=read_committed, [eo]*=read_committed", ["a=b"]),
    ],
)
def test_whose_members_read_only_what_is_committed(levels: str, committed: list[str]) -> None:
    settings = LagSettings(bootstrap_servers="", lag_isolation_level=levels)
    assert [each for each in ("etl-1", "orders", "a=b") if settings.reads_committed(each)] == committed


@pytest.mark.parametrize("level", ["committed", "etl-*", "etl-*=", "orders=read_committed,*=both"])
def test_a_level_that_there_is_not_is_refused(level: str) -> None:
    with pytest.raises(ValueError, match="it is read_uncommitted or read_committed, for all groups or as"):
        LagSettings(bootstrap_servers="", lag_isolation_level=level)


def take_in(book: Book, ends: dict[TopicPartition, int]) -> dict[str, list[int]]:
    """Measure twice: groups that are taken in by the first are in the second."""
    book.measure(0, ends)
    return records(book.measure(1, ends))


def test_a_group_that_was_left_out_is_measured_once_there_is_room() -> None:
    book, ends = Book(everybody, 4), dict.fromkeys(ORDERS, 9)
    for group_id in ("a", "b", "late"):
        for partition in ORDERS[:2]:
            book.committed(group_id, partition, 0, 1)
    book.committed("late", ORDERS[1], 5, 7)
    assert (take_in(book, ends).keys(), book.left_out) == ({"a", "b"}, {"late"})
    for partition in ORDERS[:2]:
        book.deleted("b", partition)
    assert take_in(book, ends) == {"a": [8, 8], "late": [8, 2]}
    assert book.left_out == set()


def test_of_a_group_that_waits_what_is_deleted_is_forgotten() -> None:
    book, ends = Book(everybody, 2), dict.fromkeys(ORDERS, 9)
    for group_id in ("a", "late", "gone"):
        book.committed(group_id, ORDERS[0], 0, 1)
        book.committed(group_id, ORDERS[1], 0, 1)
    assert book.left_out == {"late", "gone"}
    book.deleted("late", ORDERS[1])
    book.deleted("a", ORDERS[0])
    assert take_in(book, ends) == {"a": [8], "late": [8]}


def test_a_group_that_waits_keeps_the_ids_of_topics() -> None:
    """One that has waited is as behind as one that has not: not at all in a topic that was made again."""
    book, ends = Book(everybody, 2), dict.fromkeys(ORDERS, 9)
    for number, group_id in enumerate(("a", "late", "later")):
        for partition in ORDERS[:2]:
            book.committed(group_id, partition, 0, 1, f"{number}")
    # The one has been begun with and then left out, and of the other one nothing was taken in.
    assert (book.left_out, book.topics_with_ids) == ({"late", "later"}, {"orders"})
    for partition in ORDERS[:2]:
        book.deleted("a", partition)
    book.deleted("later", ORDERS[1])
    book.committed("late", ORDERS[1], 5, 7, "before")
    book.measure(0, ends)
    assert records(book.measure(1, ends, topics={"orders": Found(3, "1")})) == {"late": [8]}
    assert records(book.measure(2, ends, topics={"orders": Found(3, "before")})) == {"late": [2]}


def test_all_that_is_looked_up_counts_in_one_measurement() -> None:
    book = Book(everybody, 10, reads_committed=lambda group_id: group_id == "etl")
    for group_id in ("etl", "orders"):
        book.committed(group_id, ORDERS[0], 0, 10, "now")
        book.committed(group_id, ORDERS[1], 0, 10, "before")
    ends, readable = dict.fromkeys(ORDERS, 15), dict.fromkeys(ORDERS, 10)
    etl, orders = book.measure(0, ends, readable, {"orders": Found(3, "now")})
    assert [(it.partition, it.readable_end) for it in etl.partitions] == [(ORDERS[0], 10)]
    assert [(it.partition, it.readable_end) for it in orders.partitions] == [(ORDERS[0], 15)]


def test_commits_are_read_again_for_groups_of_which_only_the_id_is_known() -> None:
    book, ends = Book(everybody, 4), dict.fromkeys(ORDERS, 9)
    groups = [f"g{number}" for number in range(6)]
    for group_id in groups:
        for partition in ORDERS[:2]:
            book.committed(group_id, partition, 0, 1)
    assert (take_in(book, ends).keys(), book.left_out) == ({"g0", "g1"}, set(groups[2:]))
    assert not book.has_to_read_again
    for partition in ORDERS[:2]:
        book.deleted("g0", partition)
        book.deleted("g1", partition)
    assert (take_in(book, ends).keys(), book.left_out) == ({"g2", "g3"}, {"g4", "g5"})
    assert book.has_to_read_again
    book.read_again()
    for group_id in groups[2:]:
        for partition in ORDERS[:2]:
            book.committed(group_id, partition, 0, 1)
    assert (take_in(book, ends).keys(), book.left_out) == ({"g2", "g3"}, {"g4", "g5"})
    assert not book.has_to_read_again
    for group_id in ("g2", "g3"):
        for partition in ORDERS[:2]:
            book.deleted(group_id, partition)
    assert take_in(book, ends).keys() == {"g4", "g5"}


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        ("", ""),
        ("*", "orders etl-1 etl-2"),
        ("orders", "orders"),
        (" etl-* , orders", "orders etl-1 etl-2"),
        ("ETL-*", ""),
        ("etl-[1]", ""),
        ("etl-?", ""),
        ("*-2,,", "etl-2"),
    ],
)
def test_which_groups_are_measured(patterns: str, chosen: str) -> None:
    settings = LagSettings(bootstrap_servers="", lag_groups=patterns)
    assert [each for each in ("orders", "etl-1", "etl-2") if settings.measures(each)] == chosen.split()


# -- commits -----------------------------------------------------------------------------------------------


def committed(
    offset: int | None, at_ms: int = 0, place: int | None = None, key: Any = ("g", "orders", 0)
) -> Any:
    told = {"committed_offset": offset, "commit_timestamp_ms": at_ms, "metadata": "", "topic_id": "A"}
    value = None if offset is None else told
    return SimpleNamespace(
        topic="coordinator.offsets",
        partition=1,
        offset=7,
        key=msgspec.json.encode(key),
        value=None if value is None else msgspec.json.encode(value),
        headers=[] if place is None else [header(place)],
    )


def test_commits_are_read_and_never_go_back(caplog: pytest.LogCaptureFixture) -> None:
    book = Book(everybody, 10)
    commits = Commits(book)
    commits.take(committed(5, place=2))
    commits.take(committed(3, place=1))
    assert records(book.measure(0, {ORDERS[0]: 10})) == {"g": [5]}
    commits.take(committed(None, place=1))
    assert (book.partitions, book.topics_with_ids) == ({ORDERS[0]}, {"orders"})
    commits.take(committed(None, place=3))
    assert book.partitions == set()
    commits.take(committed(4, place=4))
    assert book.partitions == {ORDERS[0]}
    # A client may commit -1, and a broker tells others of such a commit that there is none.
    commits.take(committed(-1, place=5))
    assert book.partitions == set()
    caplog.set_level(logging.WARNING)
    bad = committed(1, key=("g", "orders"))
    commits.take(bad)
    assert caplog.messages[0].startswith(
        "coordinator.offsets, partition 1, offset 7 is no committed offset and is skipped: "
    )
    assert book.partitions == set()


# -- metrics -----------------------------------------------------------------------------------------------


def test_the_metrics_have_the_names_of_kafka_lag_exporter() -> None:
    now_s = [100.0]
    metrics = LagMetrics("production", 15, lambda: now_s[0])
    registry = CollectorRegistry()
    registry.register(metrics)
    assert (metrics.is_ready(), list(metrics.collect())) == ((False, "nothing is measured yet"), [])

    book = Book(everybody, 10)
    book.committed("billing", ORDERS[0], 0, 4)
    book.committed("billing", ORDERS[1], 0, 5)
    book.committed("units", UNIT, 0, 5)
    book.measure(0, {ORDERS[0]: 4, ORDERS[1]: 5})
    metrics.measured(0.25, book.measure(10_000, {ORDERS[0]: 6, ORDERS[1]: 5}), 3)
    metrics.wrote(2, 1)

    group = {"cluster_name": "production", "group": "billing"}
    partition = {**group, "topic": "orders", "partition": "0"}
    for name, labels, value in (
        ("kafka_consumergroup_group_offset", partition, 4),
        ("kafka_consumergroup_group_lag", partition, 2),
        ("kafka_consumergroup_group_lag", partition | {"partition": "1"}, 0),
        ("kafka_consumergroup_group_lag_seconds", partition, 5),
        ("kafka_consumergroup_group_sum_lag", group, 2),
        ("kafka_consumergroup_group_max_lag", group, 2),
        ("kafka_consumergroup_group_max_lag_seconds", group, 5),
        ("kafka_consumergroup_group_topic_sum_lag", group | {"topic": "orders"}, 2),
        ("kafka_consumergroup_group_sum_lag", group | {"group": "units"}, None),
        (
            "kafka_partition_latest_offset",
            {k: partition[k] for k in ("cluster_name", "topic", "partition")},
            6,
        ),
        ("group_coordinator_lag_partitions", group | {"status": "ok"}, 2),
        ("group_coordinator_lag_partitions", group | {"status": "stalled"}, 0),
        ("group_coordinator_lag_growing", group, 0),
        ("group_coordinator_lag_clears_seconds", group, None),
        ("group_coordinator_lag_error_seconds", group, 5),
        ("group_coordinator_lag_measured_timestamp_seconds", {}, 100),
        ("group_coordinator_lag_measurement_seconds", {}, 0.25),
        ("group_coordinator_lag_groups_left_out", {}, 3),
        ("group_coordinator_lag_writes_total", {"result": "written"}, 2),
        ("group_coordinator_lag_writes_total", {"result": "lost"}, 1),
    ):
        assert registry.get_sample_value(name, labels) == value, name
    assert metrics.is_ready() == (True, "measuring 2 groups")
    now_s[0] += 61
    metrics.has_problem("Kafka is away")
    assert metrics.is_ready() == (False, "nothing was measured for 61 s: Kafka is away")
    assert metrics.is_live() == (True, "running")
    now_s[0] += 60
    assert metrics.is_live() == (False, "has stood still for 121 s")


def test_a_lag_of_unknown_age_and_one_that_clears() -> None:
    metrics, registry, book = LagMetrics("kafka", 15), CollectorRegistry(), Book(everybody, 10)
    registry.register(metrics)
    for number in range(12):
        book.committed("billing", ORDERS[0], number * 15_000, number)
        groups = book.measure(number * 15_000, {ORDERS[0]: 20})
    metrics.measured(0, groups, 0)
    labels = {"cluster_name": "kafka", "group": "billing"}
    assert registry.get_sample_value("group_coordinator_lag_error_seconds", labels) == float("inf")
    # 9 are left, one less each 15 s.
    assert registry.get_sample_value("group_coordinator_lag_clears_seconds", labels) == 135
    assert groups[0].statuses == {Status.OK: 1}
