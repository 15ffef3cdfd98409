"""The partitions of a topic that was just made."""

from __future__ import annotations

import pytest
from kafka.errors import UnknownTopicOrPartitionError
from kafka.structs import TopicPartition

from group_coordinator.client import since
from group_coordinator.client.since import partitions_there


class Consumer:
    """Knows the topic when it is asked for the third time, as one whose broker is told of it late."""

    def __init__(self, *answers: set[int]) -> None:
        self._answers = [set[int](), set[int](), *answers]

    def partitions_for_topic(self, topic: str) -> set[int]:
        assert topic == "made"
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def test_a_topic_of_which_brokers_do_not_tell_yet_is_waited_for() -> None:
    assert partitions_there(Consumer({1, 0}), "made") == [
        TopicPartition("made", 0),
        TopicPartition("made", 1),
    ]


def test_a_topic_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(since, "_THERE_S", 0.01)
    with pytest.raises(UnknownTopicOrPartitionError, match="there is no topic made"):
        partitions_there(Consumer(), "made")
