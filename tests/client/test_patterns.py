from __future__ import annotations

import logging

import pytest
from kafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from group_coordinator.client import patterns
from group_coordinator.client.patterns import TopicPattern


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [1_000_000]
    monkeypatch.setattr(patterns, "now_ms", lambda: now[0])
    return now


def test_names_begin_with_a_match_and_are_not_kafkas_own() -> None:
    there = ["orders", "orders-eu", "my-orders", "__consumer_offsets", "refunds"]
    assert TopicPattern("orders", lambda: there, 1, with_internal=False).topics() == {"orders", "orders-eu"}
    assert TopicPattern("or.*s$|re", lambda: there, 1, with_internal=False).topics() == {"orders", "refunds"}
    assert TopicPattern(".*", lambda: there, 1, with_internal=False).topics() == set(there) - {there[3]}
    assert TopicPattern(".*", lambda: there, 1, with_internal=True).topics() == set(there)


def test_it_looks_again_when_it_is_time(clock: list[int]) -> None:
    there = ["a"]
    pattern = TopicPattern("[ab]", lambda: there, 100, with_internal=False)
    assert pattern.topics() == {"a"}
    there.append("b")
    clock[0] += 99
    assert pattern.topics_if_due() is None
    clock[0] += 1
    assert pattern.topics_if_due() == {"a", "b"}
    assert pattern.topics_if_due() is None


def test_a_look_that_fails_is_made_again(clock: list[int], caplog: pytest.LogCaptureFixture) -> None:
    errors = [KafkaConnectionError("gone")]

    def look_up() -> list[str]:
        if errors:
            raise errors.pop()
        return ["a"]

    pattern = TopicPattern("a", look_up, 60_000, with_internal=False)
    with caplog.at_level(logging.WARNING):
        assert pattern.topics_if_due() is None
    assert "cannot look up the topics of a, trying again" in caplog.text
    assert pattern.topics_if_due() is None
    clock[0] += 1_000
    assert pattern.topics_if_due() == {"a"}

    errors.append(TopicAuthorizationFailedError())
    clock[0] += 60_000
    with pytest.raises(TopicAuthorizationFailedError):
        pattern.topics_if_due()
