"""All that is known of the chosen groups: commits and ends come in, lags go out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kafka.structs import TopicPartition

from group_coordinator.coordinator_state.offsets.still_there import Found, is_gone
from group_coordinator.lag.course import Course, Status
from group_coordinator.lag.ends import Ends
from group_coordinator.lag.trend import Trend, Trends
from group_coordinator.lag.waiting import Commit, WaitingGroups

MOST_OTHERS = 100_000
"""Groups that are not chosen are counted up to so many."""

Place = tuple[TopicPartition, int, bool]
"""A committed offset, and whether only records of committed transactions count behind it."""


class PartitionLag(NamedTuple):
    """The lag of a group in one partition. Times in ms.

    `age_ms`: how old the oldest record is that the group has not committed past, 0 if there is none.
    `error_ms`: by how much that may be wrong. `is_at_least`: it may be older, nobody knows how much.
    `is_by_record`: it is known by the record's own timestamp, and not by the ends of the log.
    """

    partition: TopicPartition
    committed: int
    end: int
    age_ms: int
    error_ms: int
    is_at_least: bool
    status: Status
    is_by_record: bool = False
    reads_committed: bool = False
    """Whether the group's members are taken to read no records of open and aborted transactions."""
    first: int = -1
    """No record lies between the committed offset and this one, if it is greater."""
    readable_end: int = -1
    """The end for the group's members: no record lies between it and the end, if it is not -1."""
    begin: int = -1
    """The first offset that retention has left in the log; -1 if it is not known."""
    lost_in_ms: int | None = None
    """In how many ms retention will have deleted records that the group has left, if it goes on so."""

    @property
    def place(self) -> Place:
        """The place in the log that the group has come to."""
        return self.partition, self.committed, self.reads_committed

    @property
    def records(self) -> int:
        """The number of records that are left."""
        return max(0, self.end - self.committed)

    @property
    def lost(self) -> int:
        """The number of records that retention has deleted before the group had committed past them."""
        return max(0, self.begin - self.committed)


class GroupLag(NamedTuple):
    """The lag of a group, and of each partition with a log of which it has committed something."""

    group_id: str
    partitions: list[PartitionLag]
    trend: Trend

    @property
    def records(self) -> int:
        """The sum over its partitions."""
        return sum(each.records for each in self.partitions)

    @property
    def lost(self) -> int:
        """The sum over its partitions."""
        return sum(each.lost for each in self.partitions)

    @property
    def lost_in_ms(self) -> int | None:
        """The least of its partitions' times."""
        return min((each.lost_in_ms for each in self.partitions if each.lost_in_ms is not None), default=None)

    @property
    def statuses(self) -> Counter[Status]:
        """The numbers of its partitions by status."""
        return Counter(each.status for each in self.partitions)


class Book:
    """Keeps the courses of the groups that `is_chosen` chooses, at most `most_partitions` of them.

    `reads_committed`: whether a group's members read no records of open and aborted transactions. `first`:
    the offset up to which it is known that no record lies behind a place.

    A group that finds no room is left out whole, because half a group's lag would be a wrong figure. It waits
    with what it has committed, and is taken in when there is room. At most as many partitions wait. Of a
    group beyond that only the id is kept, until its commits are read again (`has_to_read_again`).

    Nothing in it does I/O, and time comes in as an argument, in ms.
    """

    def __init__(
        self,
        is_chosen: Callable[[str], bool],
        most_partitions: int,
        reads_committed: Callable[[str], bool] = lambda _: False,
        first: Callable[[Place], int] = lambda place: place[1],
    ) -> None:
        self._is_chosen, self._most = is_chosen, most_partitions
        self._reads_committed, self._first = reads_committed, first
        self._courses: dict[str, dict[TopicPartition, Course]] = {}
        self._ends: dict[TopicPartition, Ends] = {}
        self._trends: dict[str, Trends] = {}
        self._topics: Mapping[str, Found] = {}
        self._count = 0
        self._waiting = WaitingGroups(most_partitions)
        self._freed = 0
        """Partitions of groups that have gone since the commits were read from the beginning."""
        self._others: set[str] | None = set()
        """Groups that are not chosen; None once a group is."""

    @property
    def others(self) -> int:
        """The number of groups that have committed, if none of them was ever chosen; else 0."""
        return len(self._others or ())

    @property
    def left_out(self) -> set[str]:
        """Groups that are chosen and not measured, because there are too many partitions."""
        return self._waiting.group_ids

    @property
    def has_to_read_again(self) -> bool:
        """Whether there is room for groups of which nothing but the id is known.

        Half of all partitions have to go first, so reading does not follow upon reading.
        """
        return self._waiting.has_forgotten and 2 * self._freed >= self._most

    def read_again(self) -> None:
        """All commits are read from the beginning now."""
        self._freed = 0
        self._waiting = WaitingGroups(self._most)

    def committed(
        self, group_id: str, partition: TopicPartition, at_ms: int, offset: int, topic_id: str = ""
    ) -> None:
        """A group has committed. `topic_id`: as the commit has given it, or empty."""
        if not self._is_chosen(group_id):
            if self._others is not None and len(self._others) < MOST_OTHERS:
                self._others.add(group_id)
            return
        self._others = None
        if group_id in self._waiting:
            self._waiting.committed(group_id, partition, Commit(at_ms, offset, topic_id))
            return
        courses = self._courses.setdefault(group_id, {})
        course = courses.get(partition)
        if course is None:
            if self._count >= self._most:
                self._leave_out(group_id)
                self._waiting.committed(group_id, partition, Commit(at_ms, offset, topic_id))
                return
            course = courses[partition] = Course()
            self._count += 1
        elif course.topic_id and topic_id and course.topic_id != topic_id:
            course = courses[partition] = Course()
        course.topic_id = topic_id
        ends = self._ends.get(partition)
        course.commits(at_ms, offset, None if ends is None else ends.newest)

    def deleted(self, group_id: str, partition: TopicPartition) -> None:
        """A group has no offset there any more."""
        self._freed += self._waiting.deleted(group_id, partition)
        courses = self._courses.get(group_id, {})
        if courses.pop(partition, None) is None:
            return
        self._count -= 1
        self._freed += 1
        if not courses:
            self._forget(group_id)

    def _leave_out(self, group_id: str) -> None:
        for partition, course in self._courses[group_id].items():
            self._waiting.committed(group_id, partition, Commit(*course.newest, course.topic_id))
        self._forget(group_id)

    def _forget(self, group_id: str) -> None:
        self._count -= len(self._courses.pop(group_id, {}))
        self._trends.pop(group_id, None)

    def _take_in(self) -> None:
        """Measure the groups that have waited, as far as there is room."""
        for group_id, commits in self._waiting.take(self._most - self._count):
            for partition, commit in commits.items():
                self.committed(group_id, partition, *commit)

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions whose ends have to be looked up."""
        return {partition for courses in self._courses.values() for partition in courses}

    @property
    def topics_with_ids(self) -> set[str]:
        """The topics that commits have given ids of."""
        courses = (each for of_group in self._courses.values() for each in of_group.items())
        return {partition.topic for partition, course in courses if course.topic_id}

    @property
    def partitions_of_committed(self) -> set[TopicPartition]:
        """The partitions whose ends for readers of committed records have to be looked up as well."""
        groups = self._courses.items()
        return {each for group_id, courses in groups if self._reads_committed(group_id) for each in courses}

    def measure(
        self,
        at_ms: int,
        ends: Mapping[TopicPartition, int],
        ends_of_committed: Mapping[TopicPartition, int] = MappingProxyType({}),
        topics: Mapping[str, Found] = MappingProxyType({}),
    ) -> list[GroupLag]:
        """Take the ends of logs at a time, and judge all groups then.

        `topics`: those with ids, as they are now. A partition without an end has no log, such as a unit of
        work, and no lag. Nor has a group a lag where it has committed for a topic before.
        """
        self._topics = topics
        for partition, end in ends.items():
            self._ends.setdefault(partition, Ends()).add(at_ms, end)
        self._ends = {each: of_it for each, of_it in self._ends.items() if each in ends}
        groups = [self._group(group_id, at_ms, ends_of_committed) for group_id in sorted(self._courses)]
        # They are in the next measurement, for which their ends are looked up.
        self._take_in()
        return groups

    def _group(self, group_id: str, at_ms: int, ends_of_committed: Mapping[TopicPartition, int]) -> GroupLag:
        courses = self._courses[group_id]
        reads_committed = self._reads_committed(group_id)
        lags = [
            self._partition(each, courses[each], at_ms, ends_of_committed if reads_committed else None)
            for each in sorted(courses)
            if each in self._ends and not self._is_gone(each, courses[each].topic_id)
        ]
        trends = self._trends.setdefault(group_id, Trends())
        if lags:
            trends.add(at_ms, sum(each.records for each in lags))
        return GroupLag(group_id, lags, trends.trend())

    def _is_gone(self, partition: TopicPartition, topic_id: str) -> bool:
        topic = self._topics.get(partition.topic) if topic_id else None
        return topic is not None and is_gone(topic_id, partition.partition, topic)

    def _partition(
        self,
        partition: TopicPartition,
        course: Course,
        at_ms: int,
        ends_of_committed: Mapping[TopicPartition, int] | None,
    ) -> PartitionLag:
        ends = self._ends[partition]
        committed, end = course.newest[1], ends.newest
        assert end is not None  # noqa: S101 - it was added just now
        readable_end = end if ends_of_committed is None else ends_of_committed.get(partition, end)
        first = max(committed, self._first((partition, committed, ends_of_committed is not None)))
        # The offsets that are left are no records, but markers of transactions, or gaps.
        has_read_all = committed < end and first >= readable_end
        course.measured(max(0, end - committed), has_read_all=has_read_all)
        passed = None if has_read_all else ends.passed(first)
        return PartitionLag(
            partition,
            committed,
            end,
            0 if passed is None else max(0, at_ms - passed.at_ms),
            0 if passed is None else passed.error_ms,
            passed is not None and passed.is_at_least,
            course.status(at_ms),
            reads_committed=ends_of_committed is not None,
            first=first,
            readable_end=readable_end,
        )
