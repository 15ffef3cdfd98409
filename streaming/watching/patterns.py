"""The patterns that members leave to the watcher, held against all topics. Time is an argument.

    patterns.pictured(group_id, version, known)     a group's newest picture
    patterns.left(group_id)                         there is no group of the consumer protocol any more
    patterns.wants_list(now_s)                      whether brokers are to be asked for all topics
    patterns.listed(topics)                         their answer
    patterns.records(now_s)                         what to write

A gateway resolves the patterns of its clients, by their rights, and its pictures name their users. The rest
comes from programs that write requests themselves. Those match what the coordinator may see. The
watcher never touches a pattern of a user: it would tell its members of topics that they may not see.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.requests.consumer import PatternTopics, TopicFacts
from group_coordinator.jobs.topic_answers import read_topics
from group_coordinator.jobs.topic_patterns import PatternError, Renewal, matcher_of
from group_coordinator.streaming.watching.differences import Differences
from group_coordinator.streaming.watching.rounds import Pace
from group_coordinator.streaming.watching.watch import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from group_coordinator.coordinator_state.responses import KnownPattern

__all__ = ["PatternWatch"]

_ROUNDS = 2
"""Topics are listed this many times less often than topics are asked about by name."""
_EARLY_S = 1.0
_AGAIN_S = 30.0
"""A group whose picture does not follow is written to again after so long. It may have refused the record."""


class _Group:
    """A group: the version that its patterns are of, and what each of them matches, None if nobody knows."""

    __slots__ = ("again_s", "known", "renewals", "version", "written")

    def __init__(self, version: int, known: dict[str, list[str] | None]) -> None:
        self.version, self.known = version, known
        self.renewals = {pattern: Renewal() for pattern in known}
        self.written: Differences | None = None
        self.again_s = 0.0


class PatternWatch:
    """Resolves patterns. `interval_s`: as `Watch` has it. `most_bytes`: of a record. `own`: match nothing."""

    def __init__(self, interval_s: float, most_bytes: int, own: Collection[str] = ()) -> None:
        self._interval_s, self._most_bytes, self._own = interval_s, most_bytes, frozenset(own)
        self._groups: dict[str, _Group] = {}
        self._to_compare: dict[str, None] = {}
        self._topics: dict[str, TopicFacts] | None = None
        self._digest = b""
        self._matched: dict[str, list[str]] = {}
        """By pattern, as far as the newest list was matched with it."""
        self._pace = Pace(0.0)
        self._asked_s: float | None = None
        self._hurries = False
        self.invalid: dict[str, str] = {}
        """Patterns that do not compile, and why."""

    def begin(self, now_s: float) -> None:
        """Take in that watching begins. If it has ended before, the list of topics is old."""
        self._topics, self._digest, self._asked_s, self._pace = None, b"", None, Pace(now_s)

    def pictured(self, group_id: str, version: int, known: Iterable[KnownPattern]) -> None:
        """Take in the patterns of a group."""
        ours = {each.pattern: each.topics for each in known if each.user is None}
        before = self._groups.get(group_id)
        if not ours:
            self.left(group_id)
            return
        group = self._groups[group_id] = _Group(version, ours)
        if before is not None:
            group.renewals |= {it: each for it, each in before.renewals.items() if it in ours}
            if before.version == version:
                group.written, group.again_s = before.written, before.again_s
        self._to_compare[group_id] = None
        self._hurries = self._hurries or any(
            topics is None and (before is None or pattern not in before.known)
            for pattern, topics in ours.items()
        )

    def left(self, group_id: str) -> None:
        """Take in that a group has no patterns for the watcher any more."""
        self._groups.pop(group_id, None)
        self._to_compare.pop(group_id, None)
        if not self._groups:
            self._matched.clear()
            self.invalid.clear()

    def wants_list(self, now_s: float) -> bool:
        """Whether brokers are to be asked for all topics now. Nobody is while no group has a pattern."""
        if not self._groups:
            return False
        wait_s = min(_EARLY_S, self._interval_s) if self._hurries else _ROUNDS * self._interval_s
        if self._asked_s is not None and now_s < self._asked_s + wait_s:
            return False
        self._asked_s, self._hurries = now_s, False
        return True

    def listed(self, topics: bytes) -> None:
        """Take in all topics, as `topics_in` returns them. Raises `MalformedAnswerError`."""
        digest = blake2b(topics, digest_size=16).digest()
        if digest != self._digest:
            said = read_topics(topics).items()
            self._topics = {
                name: TopicFacts(name=name, partitions=it.partitions, topic_id=it.topic_id)
                for name, it in said
                if it.partitions and it.topic_id and name not in self._own
            }
            self._matched.clear()
            self._digest = digest
        # Each look counts, for what is missing in two of them.
        self._to_compare |= dict.fromkeys(self._groups)

    def records(self, now_s: float) -> list[Record]:
        """The records that are to be written now."""
        room = self._pace.room(now_s) if self._topics is not None else 0
        records: list[Record] = []
        while self._to_compare and len(records) < room:
            group_id = next(iter(self._to_compare))
            del self._to_compare[group_id]
            if (record := self._compared(group_id, now_s)) is not None:
                records.append(record)
        return records

    def _compared(self, group_id: str, now_s: float) -> Record | None:
        group, topics = self._groups[group_id], self._topics or {}
        patterns: list[PatternTopics] = []
        new: set[str] = set()
        for pattern, known in group.known.items():
            found = self._match(pattern, topics)
            names = None if found is None else group.renewals[pattern].news(known, found)
            if names is not None:
                patterns.append(PatternTopics(pattern=pattern, topics=names))
                new.update(set(names).difference(known or ()))
        tells = Differences((), (), tuple(patterns))
        if not patterns or (tells == group.written and now_s < group.again_s):
            return None
        group.written, group.again_s = tells, now_s + _AGAIN_S
        facts = tuple(topics[name] for name in sorted(new) if name in topics)
        whole = Record(group_id, group.version, tells._replace(topics=facts))
        return whole if whole.tells.size <= self._most_bytes else whole._replace(tells=tells)

    def _match(self, pattern: str, topics: dict[str, TopicFacts]) -> list[str] | None:
        if pattern in self.invalid:
            return None
        if pattern not in self._matched:
            try:
                matches = matcher_of(pattern)
            except PatternError as error:
                self.invalid[pattern] = str(error)
                return None
            self._matched[pattern] = list(filter(matches, topics))
        return self._matched[pattern]
