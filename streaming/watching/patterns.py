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

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.requests.consumer import PatternTopics
from group_coordinator.jobs.topic_memory import Memory
from group_coordinator.jobs.topic_patterns import Renewal, shown
from group_coordinator.streaming.watching.differences import Differences
from group_coordinator.streaming.watching.rounds import Pace
from group_coordinator.streaming.watching.watch import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from group_coordinator.coordinator_state.requests.consumer import TopicFacts
    from group_coordinator.coordinator_state.responses import KnownPattern

_ROUNDS = 2
"""Topics are listed this many times less often than topics are asked about by name."""
_EARLY_S = 1.0
_AGAIN_S = 30.0
"""A group whose picture does not follow is written to again after so long. It may have refused the record."""


class _Group:
    """A group: the version that its patterns are of, and what each of them matches, None if nobody knows."""

    __slots__ = ("again_s", "known", "renewals", "untold", "version", "written")

    def __init__(self, version: int, known: dict[str, list[str] | None]) -> None:
        self.version, self.known = version, known
        self.renewals = {pattern: Renewal() for pattern in known}
        self.untold: dict[str, str] = {}
        """Patterns whose topics it cannot be told, and why."""
        self.written: Differences | None = None
        self.again_s = 0.0


class PatternWatch:
    """Resolves patterns. `interval_s`: as `Watch` has it. `most_bytes`: of a record. `own`: match nothing."""

    def __init__(self, interval_s: float, most_bytes: int, own: Collection[str] = ()) -> None:
        self._interval_s, self._most_bytes, self._own = interval_s, most_bytes, frozenset(own)
        self._groups: dict[str, _Group] = {}
        self._to_compare: dict[str, None] = {}
        self._memory: Memory | None = None
        """The topics that there are; None before they are listed."""
        self._pace = Pace(0.0)
        self._asked_s: float | None = None
        self._hurries = False

    def begin(self, now_s: float) -> None:
        """Take in that watching begins. If it has ended before, the list of topics is old."""
        self._memory, self._asked_s, self._pace = None, None, Pace(now_s)

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
            group.untold = {it: why for it, why in before.untold.items() if it in ours}
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

    @property
    def untold(self) -> dict[str, str]:
        """Patterns that do not compile, or that match too much for a record, and why."""
        return {pattern: why for group in self._groups.values() for pattern, why in group.untold.items()}

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
        memory = self._memory or Memory(self._own)
        memory.listed(topics)
        self._memory = memory
        # Each look counts, for what is missing in two of them.
        self._to_compare |= dict.fromkeys(self._groups)

    def records(self, now_s: float) -> list[Record]:
        """The records that are to be written now."""
        records: list[Record] = []
        if (memory := self._memory) is None:
            return records
        room = self._pace.room(now_s)
        while self._to_compare and len(records) < room:
            group_id = next(iter(self._to_compare))
            del self._to_compare[group_id]
            if (record := self._compared(memory, group_id, now_s)) is not None:
                records.append(record)
        return records

    def _compared(self, memory: Memory, group_id: str, now_s: float) -> Record | None:
        group = self._groups[group_id]
        group.untold.clear()
        patterns: list[PatternTopics] = []
        new: dict[str, TopicFacts] = {}
        room = self._most_bytes
        for pattern, known in group.known.items():
            topics, problem = memory.match(pattern)
            if problem is not None:
                group.untold[pattern] = problem
                continue
            names = group.renewals[pattern].news(known, topics)
            if names is None:
                continue
            told = PatternTopics(pattern=pattern, topics=names)
            size = Differences(patterns=(told,)).size
            if size > self._most_bytes:
                group.untold[pattern] = (
                    f"`{shown(pattern)}` matches {len(names)} topics, too many for one record."
                )
            elif size <= room:
                # Those for which there is no room are told once the group knows of these.
                room -= size
                patterns.append(told)
                new |= {it: topics[it] for it in names if it in topics and it not in (known or ())}
        tells = Differences((), (), tuple(patterns))
        if not patterns or (tells == group.written and now_s < group.again_s):
            return None
        group.written, group.again_s = tells, now_s + _AGAIN_S
        facts = tuple(new[name] for name in sorted(new))
        whole = Record(group_id, group.version, tells._replace(topics=facts))
        return whole if whole.tells.size <= self._most_bytes else whole._replace(tells=tells)
