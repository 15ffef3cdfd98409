"""Chooses the records whose own timestamps are asked for, and applies what is known of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kafka.structs import TopicPartition

from group_coordinator.lag.book import GroupLag, PartitionLag, Place
from group_coordinator.lag.course import Status


class Wanted(NamedTuple):
    """A part of a log, from `first` to before `end`, in which the first record is asked for."""

    first: int
    end: int


class Seen(NamedTuple):
    """The answer. No record lies before `reached`. One is there if `at_ms`, its time in ms, is not None.

    A record without a timestamp has -1.
    """

    reached: int
    at_ms: int | None


class Stamps:
    """The oldest records that groups have left, as far as they are known. Times in ms.

    A record is asked for if its age is not known, or if its partition is not well. It is asked for if nothing
    has changed since the measurement before, because a marker of a transaction may be all that is left. For
    others the age by the ends is good enough. It is kept in mind until the group has committed past it.
    """

    def __init__(self) -> None:
        self._known: dict[Place, int] = {}
        self._reached: dict[Place, int] = {}
        self._before: set[tuple[Place, int]] = set()
        """The places at the last measurement, and the ends then."""

    def first(self, place: Place) -> int:
        """Tell the offset up to which no record lies behind a place."""
        return self._reached.get(place, place[1])

    def wanted(self, groups: Iterable[GroupLag], refused: Collection[str], most: int) -> dict[Place, Wanted]:
        """Choose what to ask for, one place of a partition: at most so many, the least certain ages first.

        `refused`: topics that cannot be asked.
        """
        lacking = [
            each
            for group in groups
            for each in group.partitions
            if self._is_in_doubt(each) and each.partition.topic not in refused
        ]
        lacking.sort(key=lambda each: (not each.is_at_least, -each.error_ms))
        chosen: dict[tuple[TopicPartition, bool], PartitionLag] = {}
        for each in lacking:
            if len(chosen) >= most:
                break
            chosen.setdefault((each.partition, each.reads_committed), each)
        return {each.place: Wanted(_first(each), _end(each)) for each in chosen.values()}

    def _is_in_doubt(self, lag: PartitionLag) -> bool:
        if lag.place in self._known or _first(lag) >= _end(lag):
            return False
        return lag.is_at_least or lag.status is not Status.OK or (lag.place, lag.end) in self._before

    def take(self, found: Mapping[Place, Seen]) -> None:
        """Note what was found. A record without a timestamp is not asked for again."""
        self._known |= {place: seen.at_ms for place, seen in found.items() if seen.at_ms is not None}
        self._reached |= {place: seen.reached for place, seen in found.items()}

    def applied(self, groups: Iterable[GroupLag], at_ms: int) -> list[GroupLag]:
        """The same lags as of `at_ms`, by the records themselves where those are known."""
        places: set[Place] = set()

        def by_record(lag: PartitionLag) -> PartitionLag:
            if not lag.records:
                return lag
            places.add(lag.place)
            stamp = self._known.get(lag.place)
            if stamp is None and self.first(lag.place) >= _end(lag):
                return lag._replace(age_ms=0, error_ms=0, is_at_least=False, status=Status.OK)
            if stamp is None or stamp < 0:
                return lag
            return lag._replace(
                age_ms=max(0, at_ms - stamp), error_ms=0, is_at_least=False, is_by_record=True
            )

        taken = list(groups)
        applied = [group._replace(partitions=[*map(by_record, group.partitions)]) for group in taken]
        self._known = {place: it for place, it in self._known.items() if place in places}
        self._reached = {place: it for place, it in self._reached.items() if place in places}
        self._before = {(each.place, each.end) for group in taken for each in group.partitions}
        return applied


def _first(lag: PartitionLag) -> int:
    return max(lag.first, lag.committed)


def _end(lag: PartitionLag) -> int:
    return lag.end if lag.readable_end < 0 else lag.readable_end
