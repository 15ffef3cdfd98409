"""Chooses the records whose own timestamps are asked for, and applies those that are known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka.structs import TopicPartition

from group_coordinator.lag.book import GroupLag, PartitionLag
from group_coordinator.lag.course import Status

__all__ = ["Stamps"]

Place = tuple[TopicPartition, int]


class Stamps:
    """The timestamps of the oldest records that groups have left, as far as they are known. Times in ms.

    A record is asked for if its age is not known, or if its partition is not well. Of others the age by the
    ends is good enough. One that is known stays so until the group has committed past it.
    """

    def __init__(self) -> None:
        self._known: dict[Place, int] = {}

    def wanted(
        self, groups: Iterable[GroupLag], refused: Collection[str], most: int
    ) -> dict[TopicPartition, int]:
        """The offsets to ask for, one of a partition: at most so many, the least certain ages first.

        `refused`: topics that cannot be asked.
        """
        lacking = [
            each
            for group in groups
            for each in group.partitions
            if _is_in_doubt(each) and _place(each) not in self._known and each.partition.topic not in refused
        ]
        lacking.sort(key=lambda each: (not each.is_at_least, -each.error_ms))
        wanted: dict[TopicPartition, int] = {}
        for each in lacking:
            if len(wanted) >= most:
                break
            wanted.setdefault(each.partition, each.committed)
        return wanted

    def take(self, wanted: Mapping[TopicPartition, int], found: Mapping[TopicPartition, int]) -> None:
        """Note the timestamps that were found. A record without one is -1, and is not asked for again."""
        self._known |= {(each, wanted[each]): at_ms for each, at_ms in found.items()}

    def applied(self, groups: Iterable[GroupLag], at_ms: int) -> list[GroupLag]:
        """The same lags as of `at_ms`, by the records' own timestamps where those are known."""
        used: dict[Place, int] = {}

        def by_record(lag: PartitionLag) -> PartitionLag:
            place = _place(lag)
            stamp = self._known.get(place) if lag.records else None
            if stamp is None:
                return lag
            used[place] = stamp
            if stamp < 0:
                return lag
            return lag._replace(
                age_ms=max(0, at_ms - stamp), error_ms=0, is_at_least=False, is_by_record=True
            )

        applied = [group._replace(partitions=[*map(by_record, group.partitions)]) for group in groups]
        self._known = used
        return applied


def _place(lag: PartitionLag) -> Place:
    return lag.partition, lag.committed


def _is_in_doubt(lag: PartitionLag) -> bool:
    return lag.records > 0 and (lag.is_at_least or lag.status is not Status.OK)
