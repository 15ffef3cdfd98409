"""The partitions of a topic that was just made, and a topic that is read to its end."""

from __future__ import annotations

from itertools import count

import pytest
from kafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from kafka.structs import TopicPartition

from group_coordinator.client import since
from group_coordinator.client.since import partitions_there, records_to


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


class Polled:
    """Has a record in each poll, and none behind the last one."""

    def __init__(self, *records: str) -> None:
        self._records, self._place = list(records), 0

    def position(self, _partition: TopicPartition) -> int:
        return self._place

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[str]]:
        assert timeout_ms > 0
        if not self._records:
            return {}
        self._place += 1
        return {TopicPartition("made", 0): [self._records.pop(0)]}


@pytest.fixture
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour passes between two looks at the clock."""
    hours = count()
    monkeypatch.setattr(since.time, "monotonic", lambda: next(hours) * 3_600.0)


@pytest.mark.usefixtures("_slow")
def test_somebody_who_takes_records_slowly_has_them_all() -> None:
    ends = {TopicPartition("made", 0): 3}
    assert list(records_to(Polled("a", "b", "c"), ends, 1_000)) == ["a", "b", "c"]


@pytest.mark.usefixtures("_slow")
def test_a_topic_of_which_nothing_more_comes_is_an_error() -> None:
    records = records_to(Polled("a"), {TopicPartition("made", 0): 3}, 1_000)
    assert next(records) == "a"
    with pytest.raises(KafkaTimeoutError, match="topic 'made' could not be read for 1000 ms"):
        next(records)
