"""Questions for the topics of patterns, and what is remembered of the answers."""

from __future__ import annotations

import pytest

from group_coordinator.coordinator_state.requests import TopicFacts
from group_coordinator.gateway import patterns
from group_coordinator.gateway.patterns import Patterns
from group_coordinator.jobs import topic_memory
from group_coordinator.jobs.topic_memory import Memory
from group_coordinator.jobs.topic_patterns import Matched


def facts(*names: str) -> dict[str, TopicFacts]:
    return {name: TopicFacts(name, 2, f"id of {name}") for name in names}


A = Matched(facts("a"))


class Asking:
    """Patterns, the questions that they ask, and what was told."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.told: list[Matched | None] = []
        self.patterns = Patterns(self.asked.append)

    def find(self, pattern: str, patience_s: float = 1.0) -> None:
        self.patterns.find(pattern, self.told.append, patience_s)

    def tell(self, **matched: Matched | None) -> None:
        for pattern, it in matched.items():
            self.patterns.told(pattern, it)


def test_questions_that_come_meanwhile_share_the_next_look() -> None:
    it = Asking()
    for pattern in ("a", "b", "a", "b"):
        it.find(pattern)
    assert it.asked == [["a"]]
    it.tell(a=A)
    # The third came after the first look had begun.
    assert (it.told, it.asked) == ([A], [["a"], ["b", "a"]])
    it.tell(b=Matched({}), a=A)
    assert it.told == [A, Matched({}), Matched({}), A]
    assert len(it.patterns) == 0
    assert len(it.asked) == 2


def test_each_pattern_of_a_question_is_told_on_its_own() -> None:
    it = Asking()
    for pattern in ("a", "b", "slow", "c"):
        it.find(pattern)
    it.tell(a=A)
    assert it.asked == [["a"], ["b", "slow", "c"]]
    it.tell(b=A)
    assert it.told == [A, A]
    # One who comes now waits for the next look.
    it.find("b")
    it.tell(slow=A)
    assert len(it.patterns) == 2
    it.tell(c=A)
    assert (len(it.told), it.asked[2:]) == (4, [["b"]])


def test_of_those_who_wait_none_is_compared_with_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    class Counting(patterns._Wanting):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return self is other

        __hash__ = object.__hash__

    monkeypatch.setattr(patterns, "_Wanting", Counting)
    it = Asking()
    for _ in range(300):
        it.find("a")
    it.tell(a=A)
    it.tell(a=A)
    assert len(it.told) == 300
    for number in range(300):
        it.find("ab"[number % 2])
    it.patterns.expire(2.0)
    assert (len(it.told), len(it.patterns), compared) == (600, 0, 0)


def test_kafka_that_cannot_tell_is_waited_for_once() -> None:
    it = Asking()
    it.find("a")
    it.tell(a=None)
    assert it.told == [None]
    assert len(it.asked) == 1


def test_nobody_waits_longer_than_its_patience() -> None:
    it = Asking()
    it.find("a", patience_s=1.0)
    it.find("a", patience_s=5.0)
    it.patterns.expire(0.9)
    assert it.told == []
    it.patterns.expire(1.0)
    assert it.told == [None]
    # An answer that comes late is for the others.
    it.tell(a=A)
    assert it.told == [None]
    it.tell(a=A)
    assert it.told == [None, A]
    it.tell(a=A)
    assert it.told == [None, A], "nobody has asked"


def test_an_answer_that_came_too_late_is_told_to_the_next_who_asks() -> None:
    it = Asking()
    it.find("a")
    it.patterns.expire(1.0)
    it.tell(a=A)
    it.find("a")
    assert it.told == [None, A]
    it.find("a")
    assert it.told == [None, A], "it is told once"
    it.patterns.expire(2.0)
    it.tell(a=A)
    it.patterns.expire(7.0)
    it.find("a")
    assert it.told == [None, A, None], "and not when it is old"
    it.patterns.expire(8.0)
    it.tell(a=None)
    it.find("a")
    assert it.told == [None, A, None, None], "nothing has come"


# -- what is remembered ---------------------------------------------------------------------------------


def test_patterns_match_all_topics_but_the_coordinators_own() -> None:
    memory = Memory({"coordinator.requests"})
    memory.take(facts("a", "b", "coordinator.requests", "__consumer_offsets"))
    assert memory.match(".*").topics == facts("a", "b", "__consumer_offsets")
    assert memory.match("a").topics == facts("a")
    assert "regular expression" in (memory.match("(").problem or "")


def test_the_same_topics_are_the_same_object() -> None:
    memory = Memory(())
    memory.take(facts("a", "b"))
    first = memory.match("a.*")
    assert memory.match("a.*") is first
    memory.take(facts("a", "b", "c"))
    assert memory.match("a.*") is first
    memory.take(facts("a", "a1"))
    assert memory.match("a.*").topics == facts("a", "a1")


def test_a_topic_that_grows_is_told_anew() -> None:
    memory = Memory(())
    memory.take(facts("a"))
    memory.match("a")
    grown = {"a": TopicFacts("a", 9, "id of a")}
    memory.take(grown)
    assert memory.match("a").topics == grown


def test_only_new_names_are_matched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    compiled = topic_memory.matcher_of

    def counting(pattern: str):
        matches = compiled(pattern)
        return lambda name: looked_at.append(name) or matches(name)

    monkeypatch.setattr(topic_memory, "matcher_of", counting)
    memory = Memory(())
    memory.take(facts("a", "b"))
    memory.match("a.*")
    memory.take(facts("b", "a2"))
    assert list(memory.match("a.*").topics) == ["a2"]
    assert looked_at == ["a", "b", "a2"]


def remembered(memory: Memory) -> list[str]:
    return list(memory._matched)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(())
    memory.take(facts(*(f"t{number}" for number in range(1_000))))
    first = memory.match("t.*")
    monkeypatch.setattr(topic_memory, "_MOST_BYTES", 2 * memory._bytes + 100)
    memory.match("t[0-9]+")
    assert memory.match("t.*") is first
    memory.match("t.+")
    # The one that nobody has asked for since is forgotten.
    assert remembered(memory) == ["t.*", "t.+"]
    memory.take(facts(*(f"t{number}" for number in range(9_000))))
    assert len(memory.match("t.*").topics) == 9_000
    assert remembered(memory) == ["t.*"]


@pytest.mark.parametrize("pattern", ["nothing-{}", "{}(" + "a" * 1_000], ids=["no match", "invalid"])
def test_patterns_that_match_nothing_are_forgotten_as_well(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_memory, "_MOST_BYTES", 20_000)
    memory = Memory(())
    memory.take(facts("a"))
    for number in range(500):
        memory.match(pattern.format(number))
    assert len(memory._matched) < 50
    assert memory._bytes <= 20_000


def test_lists_of_before_are_not_remembered() -> None:
    memory = Memory(())
    memory.take(facts("a", "b"))
    old = memory.match("a")
    memory.match("b")
    memory.take(facts("a", "b", "c"))
    assert memory.match("[ac]").topics["a"] is old.topics["a"]
    # It holds nothing of the list that it was matched with.
    assert memory._matched["b"] == (1, Matched(facts("b")))


def test_a_topic_that_was_gone_meanwhile_is_matched_again() -> None:
    memory = Memory(())
    memory.take(facts("a", "a1"))
    memory.match("a.*")
    memory.take(facts("a"))
    memory.match("a")
    memory.take(facts("a", "a1"))
    assert memory.match("a.*").topics == facts("a", "a1")


def test_nothing_but_the_patterns_that_do_not_compile_is_remembered_of_an_empty_cluster() -> None:
    memory = Memory(())
    assert memory.match("a") == Matched({})
    memory.take(facts("a"))
    assert memory.match("a").topics == facts("a")
