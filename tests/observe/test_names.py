"""Names of topics by their ids: what is asked of Kafka, and how often."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from kafka.errors import UnknownTopicIdError

from group_coordinator.jobs.connection import UnreachableError
from group_coordinator.observe import names as module
from group_coordinator.observe.names import TopicNames


class Kafka:
    """Knows some topics, and is away for so many requests."""

    def __init__(self, topics: Mapping[str, str], away: int = 0) -> None:
        self.topics, self.away = topics, away
        self.asked: list[set[str]] = []
        self.now_s = 1_000.0

    def describe_topics(self, topics: list[UUID]) -> list[dict[str, Any]]:
        self.asked.append({str(each) for each in topics})
        return [
            {"topic_id": each, "name": self.topics.get(str(each)), "error_code": self.error(str(each))}
            for each in topics
        ]

    def error(self, topic_id: str) -> int:
        return 0 if topic_id in self.topics else int(UnknownTopicIdError.errno)

    @contextmanager
    def client(self, config: Mapping[str, Any]) -> Iterator[Kafka]:
        assert config["bootstrap_servers"] == ["kafka:9092"]
        self.away -= 1
        if self.away >= 0:
            raise UnreachableError("nobody answers")
        yield self

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    found = Kafka({str(uuid4()): "orders", str(uuid4()): "bills"})
    monkeypatch.setattr(module, "admin_client", found.client)
    monkeypatch.setattr(module, "_names", {})
    monkeypatch.setattr(module, "_not_before_s", {})
    monkeypatch.setattr(module.time, "monotonic", lambda: found.now_s)
    monkeypatch.setattr(module.time, "sleep", found.sleep)
    return found


@pytest.fixture
def names() -> TopicNames:
    found = pickle.loads(pickle.dumps(TopicNames("kafka:9092", {"request.timeout.ms": "1"})))
    assert isinstance(found, TopicNames)
    return found


def test_each_topic_is_asked_about_once(kafka: Kafka, names: TopicNames) -> None:
    orders, bills = kafka.topics
    assert names({orders}) == {orders: "orders"}
    assert names({orders, bills}) == kafka.topics
    assert names({orders, bills}) == kafka.topics
    assert kafka.asked == [{orders}, {bills}]


def test_a_topic_that_is_gone_is_asked_about_once_a_minute(kafka: Kafka, names: TopicNames) -> None:
    (orders, _), gone = kafka.topics, str(uuid4())
    assert names({orders, gone}) == {orders: "orders"}
    kafka.now_s += 59
    assert names({gone}) == {}
    kafka.now_s += 1
    assert names({gone}) == {}
    assert kafka.asked == [{orders, gone}, {gone}]


def test_a_name_is_waited_for_while_kafka_is_away(kafka: Kafka, names: TopicNames) -> None:
    orders, _ = kafka.topics
    kafka.away = 100
    assert names({orders}) == {orders: "orders"}
    assert kafka.now_s == 1_100


def test_a_kafka_that_stays_away_ends_the_batch(kafka: Kafka, names: TopicNames) -> None:
    kafka.away = 1_000
    with pytest.raises(UnreachableError):
        names(set(kafka.topics))
    assert kafka.now_s == 1_120
