"""Fetched offsets, and topics that are no more or others than when they were committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.offsets.still_there import Found
from group_coordinator.coordinator_state.requests import OffsetFetchRequest, OffsetFetchTopic
from group_coordinator.coordinator_state.responses import (
    FetchedOffset,
    FetchedOffsetsOfTopic,
    OffsetFetchResponse,
)
from group_coordinator.gateway.fetches import judge
from group_coordinator.gateway.topics import Topics

OFFSETS = {
    "kept": {0: (5, "K"), 1: (6, "K")},
    "again": {0: (5, "before"), 1: (6, "now"), 2: (7, None)},
    "gone": {0: (5, "G")},
    "unit": {0: (5, None)},
    "short": {0: (5, None), 3: (8, None)},
    "hidden": {0: (5, "H")},
}
KAFKA = {
    "kept": Found(2, "K"),
    "again": Found(3, "now"),
    "gone": Found(0),
    "unit": Found(0),
    "short": Found(2, "S"),
    "hidden": Found(None),
}


def request(names: list[str] | None) -> OffsetFetchRequest:
    topics = None if names is None else [OffsetFetchTopic(name, list(OFFSETS[name])) for name in names]
    return OffsetFetchRequest(request_id="1", client_id="c", group_id="g", topics=topics)


def response(names: list[str] | None, error: Errors = Errors.NONE) -> OffsetFetchResponse:
    topics = [
        FetchedOffsetsOfTopic(
            name,
            [
                FetchedOffset(
                    partition_index=number,
                    committed_offset=offset,
                    metadata="m",
                    topic_id=topic_id or msgspec.UNSET,
                )
                for number, (offset, topic_id) in OFFSETS[name].items()
            ],
        )
        for name in (OFFSETS if names is None else names)
    ]
    return OffsetFetchResponse.to(request(names).reply_to, "g", error, topics=[] if error else topics)


class Kafka:
    """Kafka, which is asked when the stream has answered."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.topics = Topics(self.asked.append)

    def fetch(self, *named: list[str] | None, told: Mapping[str, Found] = KAFKA) -> list[Any]:
        """What is told of each group, for which all is asked or some topics."""
        responses: list[Any] = []
        asked, answers = [request(each) for each in named], [response(each) for each in named]
        judge(asked, answers, self.topics.find_anew, responses.extend)
        if self.asked:
            names = self.asked.pop()
            assert responses == []
            self.topics.told({name: told[name] for name in names if name in told}, 0)
        return [
            each.error
            if each.error_code
            else {
                topic.name: {part.partition_index: part.committed_offset for part in topic.partitions}
                for topic in each.topics
            }
            for each in responses
        ]


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


def test_of_all_what_is_no_more_is_left_out(kafka: Kafka) -> None:
    assert kafka.fetch(None) == [
        {"kept": {0: 5, 1: 6}, "again": {1: 6, 2: 7}, "short": {0: 5}, "hidden": {0: 5}}
    ]


def test_where_it_is_named_nothing_is_committed_for_it(kafka: Kafka) -> None:
    assert kafka.fetch(list(OFFSETS)) == [
        {
            "kept": {0: 5, 1: 6},
            "again": {0: -1, 1: 6, 2: 7},
            "gone": {0: -1},
            "unit": {0: 5},  # a unit of work need not be a topic
            "short": {0: 5, 3: 8},
            "hidden": {0: 5},
        }
    ]
    (none,) = [FetchedOffset(partition_index=0)]
    responses: list[Any] = []
    judge([request(["gone"])], [response(["gone"])], kafka.topics.find_anew, responses.extend)
    kafka.topics.told(KAFKA, 0)
    assert responses[0].topics[0].partitions == [none]


def test_what_is_named_without_an_id_is_not_asked_for(kafka: Kafka) -> None:
    assert kafka.fetch(["unit", "short"]) == [{"unit": {0: 5}, "short": {0: 5, 3: 8}}]
    assert (kafka.asked, len(kafka.topics)) == ([], 0)


def test_what_is_known_already_does_not_count(kafka: Kafka) -> None:
    kafka.topics.find({"again": 1}, 0, lambda _: None)
    kafka.topics.told({"again": Found(3, "before")}, 0)
    kafka.asked.clear()
    assert kafka.fetch(["again"]) == [{"again": {0: -1, 1: 6, 2: 7}}]


def test_of_several_groups_each_is_judged_by_what_it_has_asked(kafka: Kafka) -> None:
    assert kafka.fetch(["unit", "gone"], None, ["unit"]) == [
        {"unit": {0: 5}, "gone": {0: -1}},
        {"kept": {0: 5, 1: 6}, "again": {1: 6, 2: 7}, "short": {0: 5}, "hidden": {0: 5}},
        {"unit": {0: 5}},
    ]


def test_a_client_asks_again_if_kafka_cannot_tell(kafka: Kafka) -> None:
    told = {"kept": Found(2, "K")}
    assert kafka.fetch(["kept"], ["kept", "again"], told=told) == [
        {"kept": {0: 5, 1: 6}},
        "COORDINATOR_LOAD_IN_PROGRESS",
    ]


def test_a_broker_that_tells_no_ids_tells_what_is_gone(kafka: Kafka) -> None:
    told = {"again": Found(2), "gone": Found(0)}
    assert kafka.fetch(["again", "gone"], told=told) == [{"again": {0: 5, 1: 6, 2: 7}, "gone": {0: -1}}]


def test_an_error_stays_as_it_is(kafka: Kafka) -> None:
    told: list[Any] = []
    error = response(None, Errors.COORDINATOR_NOT_AVAILABLE)
    judge([request(None)], [error], kafka.topics.find_anew, told.extend)
    assert (told, kafka.asked) == ([error], [])
