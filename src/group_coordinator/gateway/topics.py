"""The topics that there are, and commits for what does not exist.

A broker refuses those, and the coordinator would not.

The gateway lets a commit pass if Kafka cannot tell. Time is an argument, in seconds.
Source: KafkaApis.handleOffsetCommitRequest and OffsetCommitResponse.Builder of Apache Kafka 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.offsets.still_there import Found
from group_coordinator.coordinator_state.responses import PartitionResult, TopicResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from group_coordinator.coordinator_state.requests import (
        OffsetCommitPartition,
        OffsetCommitRequest,
        OffsetCommitTopic,
    )

    _Then: TypeAlias = Callable[[Mapping[str, Found]], None]

_KEPT_S = 30.0
_MOST_KEPT = 10_000
_MOST_AT_ONCE = 1_000
"""Topics in one question to Kafka."""
_PATIENCE_S = 1.0
"""With the time that Kafka has to take the commit it is less than any request waits for its answer."""
_ANEW_PATIENCE_S = 5.0
"""Longer than the question that is under way and the next one may take."""
_UNSEEN = Found(None)


@dataclass(eq=False)
class _Wanting:
    """Somebody who wants to know, until `due_s`."""

    missing: set[str]
    found: dict[str, Found]
    """The answers, and what to tell for want of them."""
    due_s: float
    then: _Then


class Topics:
    """The topics that there are. `look_up` asks Kafka, once at a time, and the answer is `told`."""

    def __init__(self, look_up: Callable[[list[str]], None]) -> None:
        self._look_up = look_up
        self._known: dict[str, tuple[Found, float]] = {}
        """Those that there are, and since when that is known; the oldest first."""
        self._wanting: list[_Wanting] = []
        """In the order in which they came."""
        self._asked: tuple[set[str], list[_Wanting]] | None = None
        """The topics of the question, and those who wait for it: for later ones the answer may be too old."""
        self._now_s = 0.0
        """When time has passed last."""

    def __len__(self) -> int:
        """How many wait."""
        return len(self._wanting)

    def find(self, needed: Mapping[str, int], now_s: float, then: _Then) -> None:
        """Tell `then` of each topic, without those that Kafka cannot tell. It is not asked again at once.

        `needed`: how many partitions there are at least, if all is well. If fewer are known, Kafka is asked
        again.
        """
        found, missing = {}, set()
        for topic, least in needed.items():
            known, since_s = self._known.get(topic, (Found(0), 0.0))
            if known.partitions and known.partitions >= least and now_s < since_s + _KEPT_S:
                found[topic] = known
                continue
            missing.add(topic)
            if known.topic_id:
                # A commit with the id of a topic before is read again, and one without an id may skip.
                found[topic] = Found(None, known.topic_id)
        self._want(_Wanting(missing, found, now_s + _PATIENCE_S, then))

    def find_anew(self, names: Iterable[str], then: _Then, patience_s: float = _ANEW_PATIENCE_S) -> None:
        """Tell `then` of each topic as it is after this call, without what Kafka does not tell in time."""
        self._want(_Wanting(set(names), {}, self._now_s + patience_s, then))

    def _want(self, wanting: _Wanting) -> None:
        if not wanting.missing:
            wanting.then(wanting.found)
            return
        self._wanting.append(wanting)
        self._ask()

    def told(self, found: Mapping[str, Found], now_s: float) -> None:
        """Take Kafka's answer, of the topics that it could tell."""
        if self._asked is None:
            return
        (names, asking), self._asked = self._asked, None
        for topic, it in found.items():
            self._known.pop(topic, None)
            if it.partitions:
                self._known[topic] = it, now_s
        while len(self._known) > _MOST_KEPT:
            del self._known[next(iter(self._known))]
        for each in asking:
            answered = each.missing & names
            each.missing -= answered
            each.found.update({topic: found[topic] for topic in answered if topic in found})
        self._end([each for each in self._wanting if not each.missing])
        self._ask()

    def expire(self, now_s: float) -> None:
        """Go on without Kafka's answer with those who have waited long enough."""
        self._now_s = now_s
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
                each.then(each.found)


def needed_by(commit: OffsetCommitRequest) -> dict[str, int]:
    """The numbers of partitions that the topics of a commit must have."""
    needed: dict[str, int] = {}
    for topic in commit.topics:
        last = max((each.partition_index for each in topic.partitions), default=-1)
        needed[topic.name] = max(needed.get(topic.name, 0), last + 1)
    return needed


def divided(
    commit: OffsetCommitRequest, found: Mapping[str, Found]
) -> tuple[OffsetCommitRequest, list[TopicResult]]:
    """The commit for what exists, with the topics' ids, and the results of all else."""
    there, absent = [], []
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION.value
    for topic in commit.topics:
        count, topic_id = found.get(topic.name, _UNSEEN)
        kept: list[OffsetCommitPartition] = []
        lost: list[OffsetCommitPartition] = []
        for each in topic.partitions:
            is_there = count is None or 0 <= each.partition_index < count
            (kept if is_there else lost).append(each)
        if kept:
            known_by = topic_id or msgspec.UNSET
            there.append(msgspec.structs.replace(topic, partitions=kept, topic_id=known_by))
        if lost or count == 0:
            results = [PartitionResult(each.partition_index, unknown) for each in lost]
            absent.append(TopicResult(topic.name, results))
    return msgspec.structs.replace(commit, topics=there), merged(absent, ())


def metadata_of(commit: OffsetCommitRequest) -> Iterator[str]:
    """The metadata of each partition that has any."""
    for topic in commit.topics:
        yield from (each.committed_metadata for each in topic.partitions if each.committed_metadata)


def in_parts(
    commit: OffsetCommitRequest, most_bytes: int, next_request_id: Callable[[], str]
) -> list[OffsetCommitRequest]:
    """The commit as several, none of which is larger in the log than `most_bytes`, if one has no room."""
    if commit.partitions_named < 2 or len(msgspec.json.encode(commit)) <= most_bytes:  # noqa: PLR2004 - halves
        return [commit]
    half = commit.partitions_named // 2
    parts: tuple[list[OffsetCommitTopic], list[OffsetCommitTopic]] = [], []
    for topic in commit.topics:
        for part, these in zip(parts, (topic.partitions[:half], topic.partitions[half:]), strict=True):
            if these:
                part.append(msgspec.structs.replace(topic, partitions=these))
        half = max(0, half - len(topic.partitions))
    first, second = (msgspec.structs.replace(commit, topics=part) for part in parts)
    second = msgspec.structs.replace(second, request_id=next_request_id())
    return [
        *in_parts(first, most_bytes, next_request_id),
        *in_parts(second, most_bytes, next_request_id),
    ]


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
