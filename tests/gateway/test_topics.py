"""Commits for topics that may not exist, and what waits behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.offsets.still_there import Found
from group_coordinator.coordinator_state.requests import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
)
from group_coordinator.coordinator_state.responses import PartitionResult, TopicResult
from group_coordinator.gateway import topics as module
from group_coordinator.gateway.lanes import Lanes
from group_coordinator.gateway.topics import Topics, divided, merged, needed_by


def found(**counts: int) -> dict[str, Found]:
    """What Kafka tells of topics that have so many partitions; their ids are their names' first letters."""
    return {name: Found(count, name[0]) for name, count in counts.items()}


class Asking:
    """Requests that ask for topics, and Kafka, which is asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.told: list[tuple[str, Mapping[str, Found]]] = []
        self.topics = Topics(self.asked.append)

    def want(self, who: str, now_s: float = 0, **needed: int) -> None:
        self.topics.find(needed, now_s, lambda told: self.told.append((who, told)))

    def want_anew(self, who: str, *names: str) -> None:
        self.topics.find_anew(names, lambda told: self.told.append((who, told)))

    def take(self) -> list[tuple[str, Mapping[str, Found]]]:
        told, self.told = self.told, []
        return told


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_a_topic_is_looked_up_once_and_known_for_half_a_minute(asking: Asking) -> None:
    asking.want("a", orders=1, refunds=1)
    assert ([sorted(each) for each in asking.asked], asking.take()) == ([["orders", "refunds"]], [])
    asking.topics.told(found(orders=4, refunds=0), 0)
    assert asking.take() == [("a", found(orders=4, refunds=0))]
    asking.want("b", 29.9, orders=4)
    assert (asking.take(), len(asking.asked)) == ([("b", found(orders=4))], 1)
    asking.want("c", 30, orders=4)
    assert (asking.take(), asking.asked[1:]) == ([], [["orders"]])


@pytest.mark.parametrize(("before", "now"), [(0, 4), (2, 4)])
def test_a_topic_and_a_partition_that_have_just_been_created_are_there(
    asking: Asking, before: int, now: int
) -> None:
    asking.want("a", orders=1)
    asking.topics.told(found(orders=before), 0)
    asking.want("b", 1, orders=3)
    asking.topics.told(found(orders=now), 1)
    assert asking.take()[-1] == ("b", found(orders=now))


def test_who_comes_while_kafka_is_asked_waits_for_the_next_answer(asking: Asking) -> None:
    asking.want("a", orders=1)
    asking.want("b", orders=1)
    asking.topics.told(found(orders=0), 0)
    assert (asking.take(), len(asking.topics)) == ([("a", found(orders=0))], 1)
    asking.topics.told(found(orders=1), 0)
    assert (asking.take(), len(asking.topics), len(asking.asked)) == ([("b", found(orders=1))], 0, 2)


def test_what_is_wanted_anew_is_asked_for_and_known_to_later_commits(asking: Asking) -> None:
    asking.want("a", orders=1)
    asking.topics.told({"orders": Found(1, "before")}, 0)
    asking.want_anew("b", "orders")
    assert asking.asked[1:] == [["orders"]]
    asking.want_anew("c", "orders")  # for it the answer that is to come may be too old
    asking.topics.told({"orders": Found(1, "after")}, 1)
    assert asking.take()[1:] == [("b", {"orders": Found(1, "after")})]
    asking.topics.told({"orders": Found(1, "later")}, 2)
    assert asking.take() == [("c", {"orders": Found(1, "later")})]
    asking.want("d", 3, orders=1)
    assert asking.take() == [("d", {"orders": Found(1, "later")})]
    asking.want_anew("e")
    assert asking.take() == [("e", {})]


def test_what_is_wanted_anew_is_waited_for_longer_than_a_commit_waits(asking: Asking) -> None:
    asking.topics.expire(10)
    asking.want_anew("a", "orders")
    asking.topics.expire(14.9)
    assert asking.take() == []
    asking.topics.expire(15)
    assert asking.take() == [("a", {})]


def test_for_want_of_an_answer_the_id_that_was_known_is_told(asking: Asking) -> None:
    asking.want("a", orders=1)
    asking.topics.told(found(orders=1), 0)
    asking.want("b", 40, orders=1)
    asking.topics.expire(41)
    asking.want("c", 42, orders=3)
    asking.topics.told({}, 43)
    asking.topics.told({}, 43)
    for_want = {"orders": Found(None, "o")}
    assert asking.take()[1:] == [("b", for_want), ("c", for_want)]
    asking.want_anew("d", "orders")
    asking.topics.told({}, 44)
    assert asking.take() == [("d", {})]


def test_what_kafka_cannot_tell_is_not_told(asking: Asking) -> None:
    asking.want("a", orders=1)
    asking.topics.told({}, 0)
    asking.want("b", 10, orders=1)
    asking.topics.expire(10.9)
    assert asking.take() == [("a", {})]
    asking.topics.expire(11)
    assert asking.take() == [("b", {})]
    asking.topics.told(found(orders=1), 12)
    asking.topics.told(found(orders=1), 12)
    assert asking.take() == []


def test_the_most_topics(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_KEPT", 15)
    monkeypatch.setattr(module, "_MOST_AT_ONCE", 10)
    asking.want("a", **{f"t{n}": 1 for n in range(25)})
    while asking.asked:
        names = asking.asked.pop()
        assert len(names) <= 10
        asking.topics.told({name: Found(1) for name in names}, 0)
    assert [len(told) for _, told in asking.take()] == [25]
    assert len(asking.topics._known) == 15


def commit(**topics: list[int]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        request_id="1",
        client_id="c",
        group_id="g",
        topics=[
            OffsetCommitTopic(
                name, [OffsetCommitPartition(partition_index=each, committed_offset=1) for each in partitions]
            )
            for name, partitions in topics.items()
        ],
    )


def plain(topics: Any) -> list[tuple[str, list[int]]]:
    return [(each.name, [part.partition_index for part in each.partitions]) for each in topics]


def test_a_commit_is_divided_into_what_exists_and_the_rest() -> None:
    asked = commit(orders=[0, 5, 1, -1], refunds=[0], unsaid=[7], empty=[], gone=[])
    assert needed_by(asked) == {"orders": 6, "refunds": 1, "unsaid": 8, "empty": 0, "gone": 0}
    seen = found(orders=2, refunds=0, empty=1, gone=0)
    there, absent = divided(asked, seen | {"unsaid": Found(None)})
    assert plain(there.topics) == [("orders", [0, 1]), ("unsaid", [7])]
    assert [each.topic_id for each in there.topics] == ["o", msgspec.UNSET]
    assert divided(asked, seen) == (there, absent)
    assert plain(absent) == [("orders", [5, -1]), ("refunds", [0]), ("gone", [])]
    assert {part.error_code for topic in absent for part in topic.partitions} == {3}


def test_results_are_put_together_as_a_broker_does() -> None:
    told = [TopicResult("orders", [PartitionResult(0)]), TopicResult("unsaid", [PartitionResult(7, 12)])]
    first = [TopicResult("orders", [PartitionResult(5, 3)])]
    assert msgspec.to_builtins(merged(first, told)) == [
        {
            "name": "orders",
            "partitions": [{"partition_index": 5, "error_code": 3}, {"partition_index": 0, "error_code": 0}],
        },
        {"name": "unsaid", "partitions": [{"partition_index": 7, "error_code": 12}]},
    ]
    # If the broker refuses nothing, the coordinator may name a topic twice.
    assert merged([], told + told) == told + told


def test_what_comes_after_a_place_waits_and_other_groups_do_not() -> None:
    written: list[str] = []
    lanes: Lanes[str] = Lanes(written.append)
    lanes.put("g", "1")
    first, second = lanes.hold("g"), lanes.hold("g")
    lanes.put("g", "4")
    lanes.put("other", "x")
    second(["3"])
    assert written == ["1", "x"]
    first(["2"])
    lanes.put("g", "5")
    assert written == ["1", "x", "2", "3", "4", "5"]
    lanes.hold("g")([])
    assert (written[6:], lanes._lanes) == ([], {})
