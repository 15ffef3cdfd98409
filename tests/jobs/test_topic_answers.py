from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.jobs.topic_answers import (
    NEWEST_VERSION,
    OLDEST_VERSION,
    MalformedAnswerError,
    Said,
    read_topics,
    topics_in,
)
from tests.streaming.watching.cluster import NONE, UNKNOWN, UNSEEN, answer, topic_id

TOPICS = [("a", NONE, 7, 3), ("b", UNKNOWN, 0, 0), ("c" * 249, NONE, 8, 200), ("d", UNSEEN, 0, 0)]
SAID = {
    "a": Said(NONE, topic_id(7), 3),
    "b": Said(UNKNOWN, "", 0),
    "c" * 249: Said(NONE, topic_id(8), 200),
    "d": Said(UNSEEN, "", 0),
}


@pytest.mark.parametrize("version", range(OLDEST_VERSION, NEWEST_VERSION + 1))
@pytest.mark.parametrize("replicas", [0, 1, 3, 127, 300])
def test_is_read_as_kafka_python_writes_it(version: int, replicas: int) -> None:
    assert read_topics(topics_in(answer(TOPICS, version, replicas=replicas))) == SAID


def test_topics_are_the_same_bytes_whatever_broker_is_named_as_the_controller() -> None:
    one, other = (answer(TOPICS, controller=number) for number in (1, 2))
    assert one != other
    assert topics_in(one) == topics_in(other)


def test_fields_of_later_versions_are_passed_over() -> None:
    body = topics_in(answer([("a", NONE, 7, 1)], replicas=0))
    # Head of the topic; head and lists of its partition; then the tags of that.
    tags = 1 + 2 + 2 + 16 + 1 + 1 + 14 + 3
    assert body[tags] == 0
    later = body[:tags] + bytes([2, 0, 3]) + b"new" + bytes([1, 1]) + b"x" + body[tags + 1 :]
    assert read_topics(later) == {"a": Said(NONE, topic_id(7), 1)}


def test_that_ends_too_soon_is_refused_wherever_it_ends() -> None:
    # The last bytes are what the cluster allows, which is not read.
    body = answer(TOPICS, 12)
    for size in range(len(body) - 1):
        with pytest.raises(MalformedAnswerError):
            read_topics(topics_in(body[:size]))


def test_that_names_numbers_beyond_all_bounds_is_refused() -> None:
    for count in (b"\xff\xff\xff\xff\x07", b"\xff" * 12):
        with pytest.raises(MalformedAnswerError):
            read_topics(count + bytes(40))
        with pytest.raises(MalformedAnswerError):
            topics_in(bytes(4) + count + bytes(40))


@given(st.binary(max_size=200))
def test_of_any_bytes_is_read_or_refused(data: bytes) -> None:
    try:
        found = read_topics(data)
    except MalformedAnswerError:
        return
    assert all(each.partitions <= len(data) for each in found.values())
