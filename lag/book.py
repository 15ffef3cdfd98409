"""All that is known of the chosen groups: commits and ends come in, lags go out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafka.structs import TopicPartition

from group_coordinator.coordinator_state.offsets.still_there import Found, is_gone
from group_coordinator.lag.course import Course, Status
from group_coordinator.lag.ends import Ends
from group_coordinator.lag.trend import Trend, Trends

__all__ = ["Book", "GroupLag", "PartitionLag"]

_NO_TOPICS: Mapping[str, Found] = {}


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

    @property
    def records(self) -> int:
        """The number of records that are left."""
        return max(0, self.end - self.committed)


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
    def statuses(self) -> Counter[Status]:
        """The numbers of its partitions by status."""
        return Counter(each.status for each in self.partitions)


class Book:
    """Keeps the courses of the groups that `is_chosen` chooses, at most `most_partitions` of them.

    Nothing in it does I/O, and time comes in as an argument, in ms.
    """

    def __init__(self, is_chosen: Callable[[str], bool], most_partitions: int) -> None:
        self._is_chosen, self._most = is_chosen, most_partitions
        self._courses: dict[str, dict[TopicPartition, Course]] = {}
        self._ends: dict[TopicPartition, Ends] = {}
        self._trends: dict[str, Trends] = {}
        self._topics = _NO_TOPICS
        self._count = 0
        self.left_out: set[str] = set()
        """Groups that are chosen and not measured, because there are too many partitions."""

    def committed(
        self, group_id: str, partition: TopicPartition, at_ms: int, offset: int, topic_id: str = ""
    ) -> None:
        """A group has committed. `topic_id`: as the commit has given it, or empty."""
        if not self._is_chosen(group_id) or group_id in self.left_out:
            return
        courses = self._courses.setdefault(group_id, {})
        course = courses.get(partition)
        if course is None:
            if self._count >= self._most:
                # Half a group's lag would be a wrong figure.
                self._forget(group_id)
                self.left_out.add(group_id)
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
        courses = self._courses.get(group_id, {})
        if courses.pop(partition, None) is None:
            return
        self._count -= 1
        if not courses:
            self._forget(group_id)

    def _forget(self, group_id: str) -> None:
        self._count -= len(self._courses.pop(group_id, {}))
        self._trends.pop(group_id, None)

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions whose ends have to be looked up."""
        return {partition for courses in self._courses.values() for partition in courses}

    @property
    def topics_with_ids(self) -> set[str]:
        """The topics that commits have given ids of."""
        courses = (each for of_group in self._courses.values() for each in of_group.items())
        return {partition.topic for partition, course in courses if course.topic_id}

    def measure(
        self, at_ms: int, ends: Mapping[TopicPartition, int], topics: Mapping[str, Found] = _NO_TOPICS
    ) -> list[GroupLag]:
        """Take the ends of logs at a time, and judge all groups then.

        `topics`: those with ids, as they are now. A partition without an end has no log, such as a unit of
        work, and no lag. Nor has a group a lag where it has committed for a topic before.
        """
        self._topics = topics
        for partition, end in ends.items():
            self._ends.setdefault(partition, Ends()).add(at_ms, end)
        self._ends = {each: of_it for each, of_it in self._ends.items() if each in ends}
        return [self._group(group_id, at_ms) for group_id in sorted(self._courses)]

    def _group(self, group_id: str, at_ms: int) -> GroupLag:
        courses = self._courses[group_id]
        lags = [
            self._partition(each, courses[each], at_ms)
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

    def _partition(self, partition: TopicPartition, course: Course, at_ms: int) -> PartitionLag:
        ends = self._ends[partition]
        committed, end = course.committed, ends.newest
        assert committed is not None  # noqa: S101 - a course begins with a commit
        assert end is not None  # noqa: S101 - it was added just now
        course.measured(max(0, end - committed))
        passed = ends.passed(committed)
        return PartitionLag(
            partition,
            committed,
            end,
            0 if passed is None else max(0, at_ms - passed.at_ms),
            0 if passed is None else passed.error_ms,
            passed is not None and passed.is_at_least,
            course.status(at_ms),
        )
