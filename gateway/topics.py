"""Commits for topics and partitions that do not exist: a broker refuses them, and the coordinator would not.

    topics.count(needed, now_s, then)   `then` is told how many partitions topics have, now or in a moment
    topics.told(counts, now_s)          Kafka has said
    topics.expire(now_s)                time has passed

The gateway lets a commit pass if Kafka cannot tell. Time is an argument, in seconds.
Source: KafkaApis.handleOffsetCommitRequest and OffsetCommitResponse.Builder of Apache Kafka 4.2.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.responses import PartitionResult, TopicResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from group_coordinator.coordinator_state.requests import OffsetCommitPartition, OffsetCommitRequest

__all__ = ["Topics", "divided", "merged", "needed_by"]

_KEPT_S = 30.0
_MOST_KEPT = 10_000
_MOST_AT_ONCE = 1_000
"""Topics in one question to Kafka."""
_PATIENCE_S = 1.0
"""With the time that Kafka has to take the commit it is less than any request waits for its answer."""


class _Wanting:
    """Somebody who wants to know."""

    def __init__(
        self,
        missing: set[str],
        counts: dict[str, int],
        due_s: float,
        then: Callable[[Mapping[str, int]], None],
    ) -> None:
        self.missing, self.counts, self.due_s, self.then = missing, counts, due_s, then


class Topics:
    """The topics' numbers of partitions. `look_up` asks Kafka, once at a time, and the answer is `told`."""

    def __init__(self, look_up: Callable[[list[str]], None]) -> None:
        self._look_up = look_up
        self._known: dict[str, tuple[int, float]] = {}
        """Partitions, and since when that is known; the oldest first."""
        self._wanting: list[_Wanting] = []
        """In the order in which they came."""
        self._asked: tuple[set[str], list[_Wanting]] | None = None
        """The topics of the question, and those who wait for it: for later ones the answer may be too old."""

    def __len__(self) -> int:
        """How many wait."""
        return len(self._wanting)

    def count(
        self, needed: Mapping[str, int], now_s: float, then: Callable[[Mapping[str, int]], None]
    ) -> None:
        """Tell `then` the partitions of each topic, 0 if there is none; without those that Kafka cannot tell.

        `needed`: how many there are at least, if all is well. If fewer are known, Kafka is asked again.
        """
        counts = {}
        for topic, least in needed.items():
            known, since_s = self._known.get(topic, (0, 0.0))
            if known and known >= least and now_s < since_s + _KEPT_S:
                counts[topic] = known
        missing = needed.keys() - counts.keys()
        if not missing:
            then(counts)
            return
        self._wanting.append(_Wanting(set(missing), counts, now_s + _PATIENCE_S, then))
        self._ask()

    def told(self, counts: Mapping[str, int], now_s: float) -> None:
        """Take Kafka's answer, of the topics that it could tell; 0: there is none."""
        if self._asked is None:
            return
        (names, asking), self._asked = self._asked, None
        for topic, count in counts.items():
            self._known.pop(topic, None)
            if count:
                self._known[topic] = count, now_s
        while len(self._known) > _MOST_KEPT:
            del self._known[next(iter(self._known))]
        for each in asking:
            found = each.missing & names
            each.missing -= found
            each.counts.update({topic: counts[topic] for topic in found if topic in counts})
        self._end([each for each in self._wanting if not each.missing])
        self._ask()

    def expire(self, now_s: float) -> None:
        """Let requests pass that have waited long enough."""
        self._end([each for each in self._wanting if each.due_s <= now_s])

    def _ask(self) -> None:
        if self._asked is None and self._wanting:
            names: dict[str, None] = {}
            for topic in chain.from_iterable(each.missing for each in self._wanting):
                names[topic] = None
                if len(names) == _MOST_AT_ONCE:
                    break
            self._asked = set(names), list(self._wanting)
            self._look_up(list(names))

    def _end(self, ended: list[_Wanting]) -> None:
        if ended:
            gone = set(ended)
            self._wanting = [each for each in self._wanting if each not in gone]
            for each in ended:
                each.then(each.counts)


def needed_by(commit: OffsetCommitRequest) -> dict[str, int]:
    """The numbers of partitions that the topics of a commit must have."""
    needed: dict[str, int] = {}
    for topic in commit.topics:
        last = max((each.partition_index for each in topic.partitions), default=-1)
        needed[topic.name] = max(needed.get(topic.name, 0), last + 1)
    return needed


def divided(
    commit: OffsetCommitRequest, counts: Mapping[str, int]
) -> tuple[OffsetCommitRequest, list[TopicResult]]:
    """The commit for what exists, and the results of all else."""
    there, absent = [], []
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION.value
    for topic in commit.topics:
        count = counts.get(topic.name)
        found: list[OffsetCommitPartition] = []
        lost: list[OffsetCommitPartition] = []
        for each in topic.partitions:
            is_there = count is None or 0 <= each.partition_index < count
            (found if is_there else lost).append(each)
        if found:
            there.append(msgspec.structs.replace(topic, partitions=found))
        if lost or count == 0:
            results = [PartitionResult(each.partition_index, unknown) for each in lost]
            absent.append(TopicResult(topic.name, results))
    return msgspec.structs.replace(commit, topics=there), merged(absent, ())


def merged(first: Sequence[TopicResult], then: Sequence[TopicResult]) -> list[TopicResult]:
    """Results as a broker puts them together: each topic once, what it refuses itself before the rest.

    If it refuses nothing, the coordinator's results stay as they are.
    """
    if not first:
        return list(then)
    by_name: dict[str, list[PartitionResult]] = {}
    for topic in chain(first, then):
        by_name.setdefault(topic.name, []).extend(topic.partitions)
    return [TopicResult(name, partitions) for name, partitions in by_name.items()]
