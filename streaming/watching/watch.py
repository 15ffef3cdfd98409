"""The decisions of the watcher: what to ask brokers, and what to tell which group. Time is an argument.

    watch.pictured(group_id, version, topics)   a group's newest picture
    watch.left(group_id)                        there is no group of the consumer protocol any more
    watch.due(now_s)                            what to ask brokers about, in parts, and records to write
    watch.told(part, topics)                    a broker's answer to one part
    watch.missed(part)                          no broker has answered that

A record counts only if it is based on what the group knows now. So one that is lost, late or doubled does no
harm, nor does another watcher. It is written again if the group's picture does not follow.

Groups are told of a change one after the other. So a topic of ten thousand groups does not make a batch of
the query much longer.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.jobs.topic_answers import read_topics
from group_coordinator.streaming.watching.differences import NOTHING, Differences, differences
from group_coordinator.streaming.watching.names import Names, brokers_know
from group_coordinator.streaming.watching.rounds import Pace, Rounds
from group_coordinator.streaming.watching.telling import Telling

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from group_coordinator.coordinator_state.responses import KnownTopic
    from group_coordinator.streaming.watching.names import Part

_PATIENCE_S = 30.0
"""A group whose picture does not follow is told again after so long. It may have refused the record."""
_MOST_DOUBLINGS = 4
_MOST_PAIRS = 1_000_000
_DIGEST_BYTES = 16


class Record(NamedTuple):
    """A record of topic metadata: its group, and the `metadata_version` that it is based on."""

    group_id: str
    based_on: int
    tells: Differences


class Due(NamedTuple):
    """The things to do now: ask about each of `parts`, maybe none, if a round begins; write `records`."""

    begins_round: bool
    parts: list[Part]
    records: list[Record]


class _Written(NamedTuple):
    """What was different when a group was written to, how often that was before, and when it is again."""

    tells: Differences
    times: int
    again_s: float


class _Group:
    """A group. `since`: the round in which its topics had these ids already."""

    __slots__ = ("since", "topics", "version", "written")

    def __init__(self, version: int, topics: list[KnownTopic], since: int) -> None:
        self.version, self.topics, self.since = version, topics, since
        self.written: _Written | None = None

    @property
    def ids(self) -> dict[str, str | None]:
        return {topic.name: topic.topic_id for topic in self.topics}


class Watch:
    """Holds what groups know against what brokers say.

    Args:
        interval_s: between two rounds, in each of which brokers are asked about all topics.
        most_bytes: of a record.
        most_pairs: names of topics in all groups. A group for which no room is left is not watched.
    """

    def __init__(self, interval_s: float, most_bytes: int, most_pairs: int = _MOST_PAIRS) -> None:
        self._interval_s, self._most_bytes, self._most_pairs = interval_s, most_bytes, most_pairs
        self._groups: dict[str, _Group] = {}
        self._names = Names()
        self._telling = Telling()
        self._rounds, self._pace = Rounds(interval_s), Pace(0.0)
        self._to_compare: dict[str, None] = {}
        self._doubtful: dict[str, None] = {}
        """Groups for which the next round decides whether there is something to tell."""
        self._unfollowed: dict[str, None] = {}
        """Groups that were written to, and whose pictures have not followed."""
        self.left_out: set[str] = set()
        """Groups that are not watched."""

    def begin(self, now_s: float) -> None:
        """Take in that watching begins. If it has ended before, what brokers said then is old."""
        self._telling.stop()
        self._names.restart()
        self._rounds, self._pace = Rounds(self._interval_s), Pace(now_s)

    @property
    def watched(self) -> Collection[str]:
        """The topics that brokers are asked about."""
        return self._names.all

    @property
    def unseen(self) -> Collection[str]:
        """The topics of them that the watcher may not see."""
        return self._telling.unseen

    @property
    def has_more(self) -> bool:
        """Whether other groups may have to be told in a moment."""
        return bool(self._to_compare)

    # -- groups ------------------------------------------------------------------------------------

    def pictured(self, group_id: str, version: int, topics: Iterable[KnownTopic]) -> None:
        """Take in what a group knows of the topics that its members name, and the version of that."""
        group = _Group(version, list(filter(brokers_know, topics)), self._telling.round)
        before = self._groups.get(group_id)
        if before is not None:
            if before.version == version and before.topics == group.topics:
                return
            if before.version == version:
                group.written = before.written
            else:
                self._unfollowed.pop(group_id, None)
            if before.ids == group.ids:
                group.since = before.since
        now, names = group.ids.keys(), before.ids.keys() if before is not None else set[str]()
        if not now or self._names.pairs + len(now) - len(names) > self._most_pairs:
            self.left(group_id)
            if now:
                self.left_out.add(group_id)
            return
        self.left_out.discard(group_id)
        self._groups[group_id] = group
        self._to_compare[group_id] = None
        if self._names.add(group_id, now - names):
            self._rounds.hurry()
        self._unname(group_id, names - now)

    def left(self, group_id: str) -> None:
        """Take in that a group names no topics any more, or is not of the consumer protocol."""
        self.left_out.discard(group_id)
        group = self._groups.pop(group_id, None)
        if group is not None:
            for groups in (self._to_compare, self._doubtful, self._unfollowed):
                groups.pop(group_id, None)
            self._unname(group_id, group.ids.keys())

    def _unname(self, group_id: str, names: Collection[str]) -> None:
        for name in self._names.remove(group_id, names):
            self._telling.drop(name)

    # -- brokers -----------------------------------------------------------------------------------

    def due(self, now_s: float) -> Due:
        """The things to do now. All parts are `told` or `missed` before this is called again."""
        if self._rounds.begins(now_s):
            self._telling.round += 1
            self._compare_again(now_s)
            return Due(begins_round=True, parts=self._names.parts(self._telling), records=[])
        return Due(begins_round=False, parts=[], records=self._records(now_s))

    def told(self, part: Part, topics: bytes) -> None:
        """Take in an answer, as `topics_in` returns it. Raises `MalformedAnswerError`."""
        digest = blake2b(topics, digest_size=_DIGEST_BYTES).digest()
        if digest == part.digest:
            return
        for name in self._telling.take(part.names, read_topics(topics)):
            self._to_compare |= self._names.groups(name)
        part.digest = digest

    def missed(self, part: Part) -> None:
        """Take in that no broker has answered, or none as it should."""
        part.digest = b""
        self._telling.missed(part.names)

    # -- records -----------------------------------------------------------------------------------

    def _compare_again(self, now_s: float) -> None:
        """Compare groups in this round for which it decides, and those whose pictures have not followed."""
        self._to_compare |= self._doubtful
        self._doubtful.clear()
        for group_id in self._unfollowed:
            written = self._groups[group_id].written
            if written is not None and written.again_s <= now_s:
                self._to_compare[group_id] = None

    def _records(self, now_s: float) -> list[Record]:
        room = self._pace.room(now_s)
        records: list[Record] = []
        while self._to_compare and len(records) < room:
            group_id = next(iter(self._to_compare))
            del self._to_compare[group_id]
            if (record := self._compared(group_id, now_s)) is not None:
                records.append(record)
        return records

    def _compared(self, group_id: str, now_s: float) -> Record | None:
        """The record that is to be written to a group, if one is."""
        group = self._groups[group_id]
        tells, is_doubtful = differences(group.topics, self._telling, group.since, self._most_bytes)
        if is_doubtful:
            self._doubtful[group_id] = None
            self._rounds.hurry()
        written, times = group.written, 0
        if tells == NOTHING:
            group.written = None
            self._unfollowed.pop(group_id, None)
            return None
        if written is not None and written.tells == tells:
            if now_s < written.again_s:
                return None
            times = written.times + 1
        again_s = now_s + _PATIENCE_S * 2 ** min(times, _MOST_DOUBLINGS)
        group.written = _Written(tells, times, again_s)
        self._unfollowed[group_id] = None
        # The group may have refused all of them because of one.
        return Record(group_id, group.version, tells if times == 0 else tells.only(times - 1))
