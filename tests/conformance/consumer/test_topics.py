from __future__ import annotations

import pytest

from tests.conformance.consumer.topics import Topics, bucket

A, G, AGAIN = "ucRciG4pQJC8zpU2FFM3Hg", "KpKj9IJ6S8WWAq10JK8t7g", "vpT0pGgvRnupyRKrdzR9BQ"


def test_each_sequence_has_new_topics_of_its_own() -> None:
    topics = Topics({"a": (A, 6)}, "one")

    assert topics.names("ag") == ["a", "g-one"]
    assert topics.hints(["a", "g-one"]) == [{"name": "a", "topic_id": A, "partitions": 6}]


def test_a_topic_that_is_made_again_is_another() -> None:
    topics = Topics({"a": (A, 6)}, "one")
    for topic in ((G, 2), (G, 4), None, (AGAIN, 2)):
        topics.learn("g", topic)

    told = topics.letters([{"topic_id": AGAIN, "partitions": [1, 0]}, {"topic_id": G, "partitions": [0]}])

    assert told == {"g": [0], "g'": [0, 1]}
    assert topics.with_ids({"g'": [0]}) == [{"topic_id": AGAIN, "partitions": [0]}]
    assert topics.known["g"] == (AGAIN, 2)


def test_a_pattern_matches_whole_names_of_topics_that_are_there() -> None:
    topics = Topics({"a": (A, 6), "b": (AGAIN, 4)}, "one")
    topics.learn("g", (G, 2))

    assert topics.pattern("a|[gh]%") == "a|[gh]-one"
    assert topics.pattern_text("a|[gh]-one") == "a|[gh]%"
    assert [topics.matched(text) for text in ("a|[gh]%", "[gh]", "[a-z]", "z+")] == ["ag", "", "ab", ""]


def test_an_unknown_topic_is_an_id_that_nobody_has() -> None:
    topics = Topics({"a": (A, 6)}, "one")

    (owned,) = topics.with_ids({"q": [0]})

    assert owned["topic_id"] not in {A, G, AGAIN}
    assert len(owned["topic_id"]) == len(A)


@pytest.mark.parametrize(("topic_id", "java"), [(A, 2138095152), (AGAIN, 138861937)])
def test_a_bucket_is_that_of_java(topic_id: str, java: int) -> None:
    # `Uuid.fromString(topic_id).hashCode()`, as a map of 16 buckets spreads it.
    assert bucket(topic_id) == (java ^ (java >> 16)) & 15
