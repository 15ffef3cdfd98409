"""The records of topic metadata, written by a producer that takes no large ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

from group_coordinator.streaming.watching import writing
from group_coordinator.streaming.watching.differences import Differences
from group_coordinator.streaming.watching.watch import Record
from group_coordinator.streaming.watching.writing import Writing


class Producer:
    """Takes records, but for those of some groups."""

    DEFAULT_CONFIG = KafkaProducer.DEFAULT_CONFIG
    fails_for: dict[str, KafkaError]

    def __init__(self, **_: Any) -> None:
        self.sent: list[str] = []

    def send(self, _topic: str, key: bytes, value: bytes) -> object:
        group_id = key.decode()
        if group_id in self.fails_for:
            raise self.fails_for[group_id]
        assert msgspec.json.decode(value)["group_id"] == group_id
        self.sent.append(group_id)
        return object()


def write(monkeypatch: pytest.MonkeyPatch, **fails_for: KafkaError) -> tuple[list[str], str | None]:
    """Write to three groups; return to which it was, and the problem."""
    monkeypatch.setattr(writing, "KafkaProducer", Producer)
    monkeypatch.setattr(Producer, "fails_for", fails_for, raising=False)
    it = Writing("requests", {}, 1_000)
    it.write([Record(group_id, 3, Differences(gone=("a",))) for group_id in ("g1", "g2", "g3")])
    producer: Any = it._producer
    return producer.sent, it.problem


def test_one_record_that_is_too_large_keeps_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, problem = write(monkeypatch, g1=MessageSizeTooLargeError("it is too large"))
    assert (sent, problem) == (["g2", "g3"], "it is too large")


def test_kafka_that_is_away_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, problem = write(monkeypatch, g2=KafkaTimeoutError("it is away"))
    assert (sent, problem) == (["g1"], "it is away")
