"""Records that a topic's retention deletes before a group has committed past them.

A log's begin moves on when retention deletes a segment. The room of a group is what lies between that begin
and its committed offset. The records are lost when there is none, and the trend of the room says how soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka.structs import TopicPartition

from group_coordinator.lag.book import GroupLag, PartitionLag
from group_coordinator.lag.trend import Trends

_WINDOW, _LEAST = 12, 6
"""Moves of a begin. A day of an hour's segments would be too long to wait for, and two moves say nothing."""


class _Room:
    """The room of a group in one partition, each time that the log's begin had moved."""

    def __init__(self) -> None:
        self._begin: int | None = None
        self._moved_ms: list[int] = []
        self._trends = Trends(_WINDOW, _LEAST)

    def add(self, at_ms: int, begin: int, committed: int) -> None:
        """Add a measurement. A begin that has gone back is that of another log: the topic was made again."""
        if self._begin is not None and begin < self._begin:
            self._moved_ms, self._trends = [], Trends(_WINDOW, _LEAST)
        elif self._begin is not None and begin > self._begin:
            self._moved_ms = [*self._moved_ms[1 - _WINDOW :], at_ms]
            self._trends.add(at_ms, max(0, committed - begin))
        self._begin = begin

    def gone_in_ms(self, at_ms: int) -> int | None:
        """Tell in how many ms there will be no room if it goes on so; None if it does not shrink."""
        gone_in_ms = self._trends.trend().clear_in_ms
        if gone_in_ms is None:
            return None
        first_ms, last_ms = self._moved_ms[0], self._moved_ms[-1]
        # A begin that has not moved for as long as all its moves took stands still.
        is_still = at_ms - last_ms > last_ms - first_ms
        return None if is_still else max(0, last_ms + gone_in_ms - at_ms)


class Losses:
    """Applies what is known of the begins of logs. Nothing in it does I/O; times in ms."""

    def __init__(self) -> None:
        self._rooms: dict[tuple[str, TopicPartition], _Room] = {}

    @staticmethod
    def wanted(groups: Iterable[GroupLag]) -> set[TopicPartition]:
        """The partitions whose begins have to be known. A group that has read all can lose nothing."""
        return {each.partition for group in groups for each in group.partitions if each.records}

    def applied(
        self, groups: Iterable[GroupLag], begins: Mapping[TopicPartition, int], at_ms: int
    ) -> list[GroupLag]:
        """The same lags, with the begins of their logs and the time until records are lost."""
        before, self._rooms = self._rooms, {}

        def with_begin(group_id: str, lag: PartitionLag) -> PartitionLag:
            begin = begins.get(lag.partition)
            if begin is None or not lag.records:
                return lag
            key = group_id, lag.partition
            room = self._rooms[key] = before.get(key) or _Room()
            room.add(at_ms, begin, lag.committed)
            lost_in_ms = 0 if begin > lag.committed else room.gone_in_ms(at_ms)
            return lag._replace(begin=begin, lost_in_ms=lost_in_ms)

        return [
            group._replace(partitions=[with_begin(group.group_id, each) for each in group.partitions])
            for group in groups
        ]
