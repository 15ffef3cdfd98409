"""The topics that brokers list, and what patterns match of them, for gateways and the watcher of topics."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.requests import TopicFacts
from group_coordinator.jobs.topic_answers import read_topics
from group_coordinator.jobs.topic_patterns import Matched, PatternError, matcher_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["Memory"]

_MOST_REMEMBERED = 500_000
"""Names in all that is remembered of patterns: some megabytes."""


class Memory:
    """The topics that there are, and those that patterns match. `own`: topics that no pattern matches.

    A pattern that was matched before is matched only with topics that are new.
    """

    def __init__(self, own: Collection[str]) -> None:
        self._own = own
        self._topics: dict[str, TopicFacts] = {}
        self._version = 0
        self._digest = b""
        self._matched: dict[str, tuple[int, Matched, frozenset[str]]] = {}
        """By pattern: the version of the list, the topics that match, and the names that it was matched with.

        The one that was asked for last stands last.
        """
        self._remembered = 0

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
        found = {name: facts for name, facts in topics.items() if name not in self._own}
        if found != self._topics:
            self._topics = found
            self._version += 1

    def match(self, pattern: str) -> Matched:
        """Match a pattern. If nothing has changed it is the same object as before."""
        version, before, names = self._matched.pop(pattern, (-1, Matched({}), frozenset[str]()))
        if version != self._version:
            self._remembered -= len(before.topics)
            before, names = self._anew(pattern, before, names), frozenset(self._topics)
            self._remembered += len(before.topics)
        self._matched[pattern] = self._version, before, names
        while self._remembered > _MOST_REMEMBERED and len(self._matched) > 1:
            _, oldest, _ = self._matched.pop(next(iter(self._matched)))
            self._remembered -= len(oldest.topics)
        return before

    def _anew(self, pattern: str, before: Matched, names: frozenset[str]) -> Matched:
        if before.problem is not None:
            return before
        try:
            matches = matcher_of(pattern)
        except PatternError as error:
            return Matched({}, str(error))
        topics = {
            name: facts
            for name, facts in self._topics.items()
            if (name in before.topics if name in names else matches(name))
        }
        return before if topics == before.topics and names else Matched(topics)
