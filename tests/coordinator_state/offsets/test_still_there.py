"""Offsets of topics that are no more, and of those that were made again."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from group_coordinator.coordinator_state.offsets.still_there import Found, still_there, with_ids
from group_coordinator.coordinator_state.responses import FetchedOffset, FetchedOffsetsOfTopic


def of_topic(name, *topic_ids):
    """The offsets of a topic's partitions 0, 1, ..., and the ids that their commits have given."""
    return FetchedOffsetsOfTopic(
        name,
        [
            FetchedOffset(partition_index=number, committed_offset=5, metadata="m", topic_id=each or UNSET)
            for number, each in enumerate(topic_ids)
        ],
    )


def offsets(topics):
    return {
        topic.name: [(each.partition_index, each.committed_offset) for each in topic.partitions]
        for topic in topics
    }


NOTHING_OF_ALL = {}
STORED = {"t": [(0, 5)]}
NONE = {"t": [(0, -1)]}


@pytest.mark.parametrize(
    ("topic_id", "found", "of_all", "of_named"),
    [
        ("A", Found(1, "A"), STORED, STORED),
        ("A", Found(1, "B"), NOTHING_OF_ALL, NONE),
        ("A", Found(0), NOTHING_OF_ALL, NONE),
        # Kafka tells no ids: a topic that was made again cannot be told from the one before.
        ("A", Found(1), STORED, STORED),
        ("A", Found(None), STORED, STORED),
        ("A", None, STORED, STORED),
        (None, Found(1, "A"), STORED, STORED),
        (None, Found(0), NOTHING_OF_ALL, STORED),
        (None, Found(None), STORED, STORED),
        (None, None, STORED, STORED),
    ],
)
def test_what_is_told(topic_id, found, of_all, of_named):
    known = {} if found is None else {"t": found}
    stored = [of_topic("t", topic_id)]
    assert offsets(still_there(stored, known, is_all=True)) == of_all
    assert offsets(still_there(stored, known, is_all=False)) == of_named


def test_each_partition_is_judged():
    stored = [of_topic("t", "A", "B", None, "B"), of_topic("u", "U")]
    found = {"t": Found(3, "B")}
    assert offsets(still_there(stored, found, is_all=True)) == {"t": [(1, 5), (2, 5)], "u": [(0, 5)]}
    named = still_there(stored, found, is_all=False)
    assert offsets(named) == {"t": [(0, -1), (1, 5), (2, 5), (3, -1)], "u": [(0, 5)]}
    assert named[0].partitions[0] == FetchedOffset(partition_index=0), "neither metadata nor an id"


def test_topics_with_ids():
    assert with_ids([of_topic("t", None, "A"), of_topic("u", None), of_topic("v")]) == {"t"}
