"""The topics that brokers list, and what patterns match of them, for gateways and the watcher of topics."""

from __future__ import annotations

from hashlib import blake2b
from sys import getsizeof
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.requests import TopicFacts
from group_coordinator.jobs.topic_answers import read_topics
from group_coordinator.jobs.topic_patterns import Matched, PatternError, matcher_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_MOST_BYTES = 32 << 20
"""Bytes of what is remembered of patterns, without the topics themselves."""
_ENTRY_BYTES = 300
"""As much as an entry takes beside its texts and its table of topics."""


class Memory:
    """The topics that there are, and those that patterns match. `own`: topics that no pattern matches.

    A pattern that was matched before is matched only with topics that are new.
    """

    def __init__(self, own: Collection[str]) -> None:
        self._own = own
        self._topics: dict[str, TopicFacts] = {}
        self._version = 0
        self._since: dict[str, int] = {}
        """By name, the version from which on it has been in the list."""
        self._digest = b""
        self._matched: dict[str, tuple[int, Matched]] = {}
        """By pattern, the version of the list, and the topics that match.

        The one that was asked for last stands last.
        """
        self._bytes = 0

    def listed(self, topics: bytes) -> None:
        """Know all topics of an answer, as `topics_in` returns them. Raises `MalformedAnswerError`.

        The same bytes as before are not read again.
        """
        digest = blake2b(topics).digest()
        if digest != self._digest:
            said = read_topics(topics)
            self.take(
                {
                    name: TopicFacts(name, it.partitions, it.topic_id)
                    for name, it in said.items()
                    if it.partitions and it.topic_id
                }
            )
            self._digest = digest

    def take(self, topics: Mapping[str, TopicFacts]) -> None:
        """Know these topics from now on, and no others."""
        # Patterns that were matched long ago share what is as before.
        found = {
            name: before if (before := self._topics.get(name)) == facts else facts
            for name, facts in topics.items()
            if name not in self._own
        }
        if found != self._topics:
            self._topics = found
            self._version += 1
            self._since = {name: self._since.get(name, self._version) for name in found}

    def match(self, pattern: str) -> Matched:
        """Match a pattern. If nothing has changed it is the same object as before."""
        version, matched = self._pop(pattern)
        if version != self._version:
            matched = self._anew(pattern, matched, version)
        self._matched[pattern] = self._version, matched
        self._bytes += _size(pattern, matched)
        while self._bytes > _MOST_BYTES and len(self._matched) > 1:
            self._pop(next(iter(self._matched)))
        return matched

    def _pop(self, pattern: str) -> tuple[int, Matched]:
        if pattern not in self._matched:
            return -1, Matched({})
        version, matched = self._matched.pop(pattern)
        self._bytes -= _size(pattern, matched)
        return version, matched

    def _anew(self, pattern: str, before: Matched, version: int) -> Matched:
        if before.problem is not None:
            return before
        try:
            matches = matcher_of(pattern)
        except PatternError as error:
            return Matched({}, str(error))
        topics = {
            name: facts
            for name, facts in self._topics.items()
            if (name in before.topics if self._since[name] <= version else matches(name))
        }
        return before if topics == before.topics else Matched(topics)


def _size(pattern: str, matched: Matched) -> int:
    return _ENTRY_BYTES + getsizeof(pattern) + getsizeof(matched.topics) + getsizeof(matched.problem)
