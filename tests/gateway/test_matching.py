"""The thread that matches patterns with Kafka's list of topics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from group_coordinator.coordinator_state.requests import TopicFacts
from group_coordinator.gateway import matching
from group_coordinator.gateway.matching import Matching
from group_coordinator.jobs.topic_answers import topics_in
from group_coordinator.jobs.topic_patterns import Matched
from tests.patience import wait_for
from tests.streaming.watching.cluster import NONE, answer, topic_id

LIST = topics_in(answer([("a", NONE, 1, 2), ("own", NONE, 2, 1)]))
A = TopicFacts("a", 2, topic_id(1))


class Kafka:
    """Lists topics, or fails."""

    def __init__(self, list_or_error: bytes | Exception) -> None:
        self._list_or_error = list_or_error
        self.lists = 0
        self.is_closed = False

    def ask(self, names: None) -> bytes:
        assert names is None
        self.lists += 1
        if isinstance(self._list_or_error, Exception):
            raise self._list_or_error
        return self._list_or_error

    def close(self) -> None:
        self.is_closed = True


def told_of(kafka: Kafka, patterns: list[str], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What the event loop is told of one question."""
    told: list[tuple[str, Any]] = []
    monkeypatch.setattr(matching, "Asking", lambda _: kafka)

    async def ask() -> None:
        all_told = asyncio.Event()

        def tell(pattern: str, matched: Matched | None) -> None:
            told.append((pattern, matched))
            if len(told) == len(patterns):
                all_told.set()

        it = Matching(asyncio.get_running_loop(), tell, {}, ("own",))
        it.ask(patterns)
        await all_told.wait()
        it.close()

    asyncio.run(ask())
    assert kafka.is_closed
    return told


def test_one_list_serves_all_patterns_of_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(LIST)
    assert told_of(kafka, [".*", "b"], monkeypatch) == [(".*", Matched({"a": A})), ("b", Matched({}))]
    assert kafka.lists == 1


def test_kafka_that_lists_nothing_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(KafkaTimeoutError())
    assert told_of(kafka, ["a", "b"], monkeypatch) == [("a", None), ("b", None)]
    assert kafka.lists == 1


def test_the_end_waits_for_one_pattern_and_not_for_those_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "Asking", lambda _: Kafka(LIST))
    matched: list[str] = []

    async def end_while_matching() -> None:
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()
        it = Matching(loop, lambda *_: None, {}, ())

        def match(pattern: str) -> Matched:
            matched.append(pattern)
            loop.call_soon_threadsafe(begun.set)
            wait_for(lambda: it._is_closing)
            return Matched({})

        monkeypatch.setattr(it._memory, "match", match)
        it.ask(["a", "b", "c"])
        await begun.wait()
        it.close()

    asyncio.run(end_while_matching())
    assert matched == ["a"]
