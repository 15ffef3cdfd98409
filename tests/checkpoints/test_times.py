"""The append times of records, with a consumer that does as the test says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition

from group_coordinator.checkpoints import times
from group_coordinator.checkpoints.times import append_times


class Log:
    """A consumer of topic `t` with the `offsets` of each partition, of each poll one."""

    def __init__(self, offsets: dict[int, list[int]]) -> None:
        self._offsets = {TopicPartition("t", number): [*some] for number, some in offsets.items()}
        self._positions = dict.fromkeys(self._offsets, 0)
        self._paused: set[TopicPartition] = set()
        self.polls = 0

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned = set(partitions)

    def assignment(self) -> set[TopicPartition]:
        return self._assigned

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def pause(self, *partitions: TopicPartition) -> None:
        self._paused |= set(partitions)

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        self.polls += 1
        found = {}
        for partition in sorted(self._assigned - self._paused):
            offset = next(it for it in self._offsets[partition] if it >= self._positions[partition])
            self._positions[partition] = offset + 1
            record = SimpleNamespace(offset=offset, timestamp=1_000 + offset, key=b"g", value=b"{}")
            found[partition] = [record]
        return found

    def close(self) -> None:
        pass


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log({0: [5, 6, 7], 1: [3, 4], 2: []})
    first = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0, TopicPartition("t", 2): 9}
    monkeypatch.setattr(times, "consumer_of", lambda *_: (log, first))
    return log


def test_all_times_are_read_and_nothing_is_waited_for_after_the_last(log: Log) -> None:
    """A start waited for 100 ms more, in which no record could come."""
    found = append_times({}, "t", {0: 0, 1: 3, 2: 0}, {0: 8, 1: 5, 2: 9})

    assert found == {0: [1_005, 1_006, 1_007], 1: [1_003, 1_004]}
    assert log.polls == 3


def test_where_nothing_is_to_be_read_nothing_is_waited_for(log: Log) -> None:
    assert append_times({}, "t", {2: 0}, {2: 9}) == {}
    assert log.polls == 0
