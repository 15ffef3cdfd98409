"""Patterns of groups that a gateway looks up again and again, with a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from group_coordinator.coordinator_state.requests import TopicFacts
from group_coordinator.coordinator_state.responses import KnownPattern
from group_coordinator.gateway.client import Client
from group_coordinator.gateway.patterns import Patterns
from group_coordinator.gateway.renewals import KnownPatterns, Renewals, Told
from group_coordinator.jobs.topic_patterns import Matched


def facts(*names: str) -> dict[str, TopicFacts]:
    return {name: TopicFacts(name, 2, f"id of {name}") for name in names}


class Gateway:
    """Renewals, Kafka's topics, and the records that come of them. Every pattern matches every topic."""

    def __init__(self) -> None:
        self.topics = Matched(facts("a"))
        self.looks: list[str] = []
        self.records: list[Told] = []
        self.asked: list[list[str]] = []
        """The topics whose rights were asked for."""
        self.hidden: dict[str, set[str]] = {}
        """The topics that a user may not see."""
        self.now_s = 1_000.0
        self.answers = True
        self._patterns = Patterns(self._look)
        self.renewals = Renewals(self._patterns)
        self.renewals.tell = self.records.append
        self.renewals.expire(self.now_s)

    def _look(self, patterns: list[str]) -> None:
        self.looks += patterns
        self._asked = dict.fromkeys(patterns, self.topics)

    def client(self, user: str | None = "alice", member_id: str = "m", group_id: str = "g") -> Client:
        client = Client("/10.0.0.7", 1, lambda go: go(), principal=user, is_judged=True)

        def may_describe(topics: Iterable[str], then: Callable[[frozenset[str]], None]) -> None:
            self.asked.append(sorted(topics))
            then(frozenset(topics) - self.hidden.get(user or member_id, set()))

        client.may_describe = may_describe
        self.renewals.heard(client, group_id, member_id)
        return client

    def pictured(self, version: int, *topics: str, user: str | None = "alice", pattern: str = "a.*") -> None:
        known = KnownPattern(pattern=pattern, user=user, topics=list(topics))
        self.renewals.pictured("g", KnownPatterns(version, [known]))

    def passes(self, seconds: float) -> list[Told]:
        """Time passes; the records that are written."""
        begin = len(self.records)
        for _ in range(round(seconds)):
            self.now_s += 1
            self._patterns.expire(self.now_s)
            self.renewals.expire(self.now_s)
            if self.answers and len(self._patterns):
                for pattern, topics in self._asked.items():
                    self._patterns.told(pattern, topics)
        return self.records[begin:]


def told(record: Told) -> tuple[Any, ...]:
    pattern = record.pattern
    return (
        record.based_on,
        pattern.pattern,
        pattern.user,
        pattern.topics,
        [each.name for each in record.topics],
    )


def test_a_new_topic_is_told_within_eleven_seconds() -> None:
    gateway = Gateway()
    gateway.client()
    gateway.pictured(3, "a")
    assert gateway.passes(30) == []
    gateway.topics = Matched(facts("a", "b"))
    (record,) = gateway.passes(11)
    assert told(record) == (3, "a.*", "alice", ["a", "b"], ["b"])
    assert record.group_id == "g"
    gateway.pictured(4, "a", "b")
    assert gateway.passes(120) == []


def test_a_group_that_does_not_follow_is_told_again_after_half_a_minute() -> None:
    gateway = Gateway()
    gateway.client()
    gateway.pictured(3)
    assert len(gateway.passes(11)) == 1
    assert gateway.passes(25) == []
    assert len(gateway.passes(10)) == 1
    # Somebody else has told it something, so that its version is another one.
    gateway.pictured(7)
    assert [each.based_on for each in gateway.passes(11)] == [7]


def test_a_topic_goes_if_two_looks_miss_it() -> None:
    gateway = Gateway()
    gateway.client()
    gateway.pictured(3, "a", "b")
    assert gateway.passes(11) == []
    assert [told(each) for each in gateway.passes(10)] == [(3, "a.*", "alice", ["a"], [])]


def test_a_topic_that_its_user_may_not_see_any_more_goes_in_ten_minutes() -> None:
    gateway = Gateway()
    gateway.topics = Matched(facts("a", "b"))
    gateway.client()
    gateway.pictured(3, "a", "b")
    assert gateway.passes(60) == []
    gateway.hidden["alice"] = {"b"}
    assert gateway.passes(400) == []
    assert gateway.asked == [["a", "b"]], "the rights are as they were"
    record = gateway.passes(250)[0]
    assert told(record)[3] == ["a"]


def test_a_new_topic_is_judged_at_once() -> None:
    gateway = Gateway()
    gateway.hidden["alice"] = {"b"}
    gateway.client()
    gateway.pictured(3, "a")
    gateway.passes(11)
    gateway.topics = Matched(facts("a", "b", "c"))
    (record,) = gateway.passes(11)
    assert told(record)[3:] == (["a", "c"], ["c"])


def test_each_user_is_asked_for_by_a_client_of_its_own() -> None:
    gateway = Gateway()
    gateway.topics = Matched(facts("a", "b"))
    gateway.hidden["bob"] = {"b"}
    gateway.client("bob", "n")
    gateway.client("alice")
    known = [KnownPattern(pattern="a.*", user=user, topics=[]) for user in ("alice", "bob", "carol", None)]
    gateway.renewals.pictured("g", KnownPatterns(3, known))
    # Of carol there is no client here, and the last one is the watcher's.
    assert [told(each)[2:4] for each in gateway.passes(11)] == [("alice", ["a", "b"]), ("bob", ["a"])]


def test_a_client_whose_name_is_not_known_is_asked_about_its_own_member() -> None:
    gateway = Gateway()
    client = gateway.client(None, "m1")
    gateway.pictured(3, user=client.user_as("m1"))
    assert len(gateway.passes(11)) == 1
    gateway.pictured(3, user=client.user_as("m2"))
    assert gateway.passes(60) == []


def test_a_client_whose_name_is_not_known_is_no_user_that_its_member_id_names() -> None:
    gateway = Gateway()
    gateway.topics = Matched(facts("a", "b"))
    gateway.client(None, "alice")
    gateway.pictured(3, "a", "b")
    assert gateway.passes(60) == []
    assert gateway.asked == []
    gateway.client("alice", "m")
    gateway.pictured(4, "a")
    assert [told(each)[2:4] for each in gateway.passes(11)] == [("alice", ["a", "b"])]


def test_nobody_looks_for_a_group_whose_clients_have_gone() -> None:
    gateway = Gateway()
    client, other = gateway.client(), gateway.client(member_id="n")
    gateway.pictured(3, "a")
    gateway.renewals.gone(client)
    assert gateway.passes(11) == []
    assert gateway.looks == ["a.*"]
    gateway.renewals.heard(other, "another", "n")
    gateway.passes(30)
    assert gateway.looks == ["a.*"]
    gateway.renewals.gone(client)


def test_nobody_looks_for_a_pattern_that_no_member_has_any_more() -> None:
    gateway = Gateway()
    gateway.client()
    gateway.pictured(3, "a")
    gateway.pictured(4, "a", pattern="b.*")
    gateway.passes(21)
    assert set(gateway.looks) == {"b.*"}
    gateway.renewals.pictured("g", None)
    gateway.renewals.pictured("g", None)
    looks = len(gateway.looks)
    gateway.passes(30)
    assert len(gateway.looks) == looks


def test_an_answer_for_a_pattern_that_is_gone_counts_for_nothing() -> None:
    gateway = Gateway()
    gateway.client()
    gateway.pictured(3)
    gateway.answers = False
    gateway.passes(10)
    gateway.renewals.pictured("g", None)
    gateway.answers = True
    assert gateway.passes(1) == []


def test_kafka_that_does_not_answer_takes_nothing_from_a_group() -> None:
    gateway = Gateway()
    gateway.client()
    gateway.pictured(3, "a", "b")
    gateway.answers = False
    assert gateway.passes(60) == []
    gateway.answers, gateway.topics = True, Matched({}, "it does not compile any more")
    assert gateway.passes(60) == []


def test_no_client_is_looked_at_for_the_patterns_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, looked_at = Gateway(), 0
    user_as = Client.user_as

    def counting(client: Client, member_id: str) -> str:
        nonlocal looked_at
        looked_at += 1
        return user_as(client, member_id)

    monkeypatch.setattr(Client, "user_as", counting)
    for number in range(50):
        gateway.client(f"u{number}")
    known = [KnownPattern(pattern="a.*", user=f"u{number}", topics=[]) for number in range(50)]
    gateway.renewals.pictured("g", KnownPatterns(3, known))
    assert len(gateway.passes(11)) == 50
    assert looked_at == 50


def test_a_client_that_is_another_user_from_now_on_is_not_asked_for_the_one_before() -> None:
    gateway = Gateway()
    client = gateway.client()
    client.principal = "bob"
    gateway.renewals.heard(client, "g", "m")
    gateway.pictured(3)
    assert gateway.passes(30) == []


def test_very_many_patterns_are_looked_up_some_at_a_time() -> None:
    gateway = Gateway()
    gateway.client()
    known = [KnownPattern(pattern=f"p{number:03}", user="alice", topics=["a"]) for number in range(150)]
    gateway.renewals.pictured("g", KnownPatterns(3, known))
    gateway.answers = False
    gateway.passes(10)
    assert len(gateway.renewals.patterns) == 100
    gateway.passes(1)
    assert len(gateway.renewals.patterns) == 150
