"""Patterns that members leave to the watcher: what it asks, and what it tells."""

from __future__ import annotations

import pytest

from group_coordinator.coordinator_state.requests.consumer import PatternTopics, TopicFacts
from group_coordinator.coordinator_state.responses import KnownPattern
from group_coordinator.jobs.topic_answers import MalformedAnswerError, topics_in
from group_coordinator.streaming.watching.patterns import PatternWatch
from group_coordinator.streaming.watching.watch import Record
from tests.streaming.watching.cluster import NO_LEADER, NONE, answer, topic_id

OWN = "coordinator.requests"


def pattern(text: str, *topics: str | None, user: str | None = None) -> KnownPattern:
    """A pattern of a picture; of one that nobody has resolved the topics are None."""
    return KnownPattern(pattern=text, user=user, topics=None if None in topics else [*filter(None, topics)])


class Watching:
    """A watch of patterns, and brokers with these topics: the number of their id, and partitions."""

    def __init__(self, most_bytes: int = 10_000, **topics: tuple[int, int]) -> None:
        self.topics = {OWN: (99, 1)} | topics
        self.watch = PatternWatch(5, most_bytes, (OWN,))
        self.now_s = 1_000.0
        self.lists: list[float] = []
        self.watch.begin(self.now_s)

    def goes_on(self, seconds: float) -> list[Record]:
        records: list[Record] = []
        for _ in range(round(seconds * 10)):
            self.now_s += 0.1
            if self.watch.wants_list(self.now_s):
                self.lists.append(self.now_s)
                found = [(name, NONE, *it) for name, it in self.topics.items()]
                self.watch.listed(topics_in(answer([*found, ("broken", NO_LEADER, 0, 0)])))
            records += self.watch.records(self.now_s)
        return records


def told(record: Record) -> tuple[int, list[tuple[str, list[str]]], list[str]]:
    patterns = [(it.pattern, it.topics) for it in record.tells.patterns]
    return record.based_on, patterns, [it.name for it in record.tells.topics]


def test_nobody_lists_topics_while_no_group_leaves_a_pattern_to_the_watcher() -> None:
    watching = Watching(a=(1, 2))
    watching.watch.pictured("g", 3, [])
    watching.watch.pictured("h", 3, [pattern("a.*", user="alice"), pattern("a.*", None, user="")])
    assert watching.goes_on(60) == []
    assert watching.lists == []


def test_a_pattern_that_nobody_has_resolved_is_told_at_once() -> None:
    watching = Watching(a1=(1, 2), a2=(2, 3), b=(3, 1))
    watching.watch.pictured("g", 3, [pattern("a.*", None)])
    (record,) = watching.goes_on(1)
    assert record.group_id == "g"
    assert told(record) == (3, [("a.*", ["a1", "a2"])], ["a1", "a2"])
    assert record.tells.topics[1] == TopicFacts(name="a2", partitions=3, topic_id=topic_id(2))
    watching.watch.pictured("g", 4, [pattern("a.*", "a1", "a2")])
    assert watching.goes_on(60) == []
    assert len(watching.lists) <= 8, "every ten seconds"
    # Another one that comes need not wait.
    watching.watch.pictured("h", 1, [pattern(".*", None)])
    (record,) = watching.goes_on(1.5)
    assert told(record)[1] == [(".*", ["a1", "a2", "b"])], "and none of the coordinator's own"


def test_a_new_topic_is_told_within_ten_seconds() -> None:
    watching = Watching(a1=(1, 2))
    watching.watch.pictured("g", 3, [pattern("a.*", "a1")])
    watching.goes_on(20)
    watching.topics["a2"] = (2, 1)
    (record,) = watching.goes_on(10.1)
    assert told(record) == (3, [("a.*", ["a1", "a2"])], ["a2"])


def test_a_topic_goes_if_two_lists_miss_it() -> None:
    watching = Watching(a1=(1, 2), a2=(2, 1))
    watching.watch.pictured("g", 3, [pattern("a.*", "a1", "a2")])
    watching.goes_on(20)
    del watching.topics["a2"]
    begun = len(watching.lists)
    while not (records := watching.goes_on(0.1)):
        assert watching.now_s < 1_100
    assert len(watching.lists) - begun == 2
    assert told(records[0]) == (3, [("a.*", ["a1"])], [])


def test_only_patterns_that_match_others_are_told() -> None:
    watching = Watching(a=(1, 2), b=(2, 2))
    watching.watch.pictured("g", 3, [pattern("a", "a"), pattern("b", None), pattern("b", user="alice")])
    (record,) = watching.goes_on(1)
    assert record.tells.patterns == (PatternTopics(pattern="b", topics=["b"]),)


def test_a_group_that_does_not_follow_is_told_again_after_half_a_minute() -> None:
    watching = Watching(a=(1, 2))
    watching.watch.pictured("g", 3, [pattern("a", None)])
    assert len(watching.goes_on(28)) == 1
    # Its picture says no more than that it has another member.
    watching.watch.pictured("g", 3, [pattern("a", None)])
    assert watching.goes_on(0.9) == []
    assert len(watching.goes_on(15)) == 1
    watching.watch.pictured("g", 5, [pattern("a", None)])
    assert [each.based_on for each in watching.goes_on(1)] == [5]


def test_a_group_that_is_gone_is_told_nothing() -> None:
    watching = Watching(a=(1, 2))
    watching.watch.pictured("g", 3, [pattern("a", None)])
    watching.watch.left("g")
    watching.watch.left("never was")
    assert watching.goes_on(30) == []
    assert watching.lists == []


def test_a_pattern_that_does_not_compile_matches_nothing_and_is_told_of() -> None:
    watching = Watching(a=(1, 2))
    watching.watch.pictured("g", 3, [pattern("a(", None), pattern("a", None)])
    records = watching.goes_on(25)
    assert [told(each)[1] for each in records] == [[("a", ["a"])]]
    assert "regular expression" in watching.watch.untold["a("]
    watching.watch.pictured("h", 3, [pattern("b(", None)])
    watching.watch.pictured("g", 4, [pattern("a", "a"), pattern("a(", None)])
    assert list(watching.watch.untold) == ["a("], "until it is looked at again"
    watching.goes_on(25)
    watching.watch.pictured("g", 5, [pattern("a", "a")])
    assert list(watching.watch.untold) == ["b("], "no member has the other one any more"
    watching.watch.left("h")
    assert watching.watch.untold == {}


def test_a_record_that_would_be_too_large_leaves_out_what_is_known_of_the_topics() -> None:
    watching = Watching(most_bytes=100, a=(1, 2))
    watching.watch.pictured("g", 3, [pattern("a", None)])
    (record,) = watching.goes_on(1)
    assert told(record) == (3, [("a", ["a"])], [])


def test_a_pattern_that_matches_too_much_for_a_record_is_not_told() -> None:
    watching = Watching(most_bytes=1_000, **{f"a{number:03}": (1 + number, 1) for number in range(200)})
    watching.watch.pictured("g", 3, [pattern("a.*", "a000"), pattern("a00.", None)])
    watching.watch.pictured("h", 1, [pattern("a.*", None)])
    (record,) = watching.goes_on(1)
    assert (record.group_id, [it.pattern for it in record.tells.patterns]) == ("g", ["a00."])
    assert watching.watch.untold == {"a.*": "`a.*` matches 200 topics, too many for one record."}


def test_patterns_that_match_too_much_together_are_told_one_after_the_other() -> None:
    watching = Watching(most_bytes=1_000, **{f"a{number:03}": (1 + number, 1) for number in range(200)})
    watching.watch.pictured("g", 3, [pattern(f"a{each}..", None) for each in "01"])
    (first,) = watching.goes_on(1)
    assert [it.pattern for it in first.tells.patterns] == ["a0.."]
    told_names = first.tells.patterns[0].topics
    watching.watch.pictured("g", 4, [pattern("a0..", *told_names), pattern("a1..", None)])
    (second,) = watching.goes_on(1)
    assert [it.pattern for it in second.tells.patterns] == ["a1.."]
    assert watching.watch.untold == {}


def test_many_groups_are_told_one_after_the_other() -> None:
    watching = Watching(a=(1, 2))
    for number in range(200):
        watching.watch.pictured(f"g{number}", 1, [pattern("a", None)])
    assert len(watching.goes_on(0.1)) <= 60
    assert len(watching.goes_on(1)) >= 140


def test_what_was_listed_before_somebody_else_watched_is_old() -> None:
    watching = Watching(a=(1, 2))
    watching.watch.pictured("g", 3, [pattern("a.*", "a")])
    watching.goes_on(1)
    watching.topics["a2"] = (2, 1)
    watching.watch.begin(watching.now_s)
    (record,) = watching.goes_on(1)
    assert told(record)[2] == ["a2"]


def test_an_answer_that_cannot_be_read_is_no_list() -> None:
    watching = Watching(a=(1, 2))
    watching.watch.pictured("g", 3, [pattern("a", None)])
    with pytest.raises(MalformedAnswerError):
        watching.watch.listed(b"\x05\x00")
    assert watching.watch.records(2_000.0) == []
