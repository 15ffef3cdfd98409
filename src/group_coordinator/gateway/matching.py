"""Kafka's list of topics, and the patterns that are matched with it, in a thread of its own.

Ten thousand topics are 5 MB, and to match their names with a pattern takes a tenth of a second. So the list
is asked for once a second at most, and only while somebody wants to know. It is read only if its bytes have
changed. A pattern that was matched before is matched only with topics that are new.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from group_coordinator.coordinator_state.requests import TopicFacts
from group_coordinator.gateway.patterns import Matched
from group_coordinator.gateway.stream import Loop
from group_coordinator.jobs.connection import UnreachableError
from group_coordinator.jobs.threads import look_at
from group_coordinator.jobs.topic_answers import MalformedAnswerError, read_topics
from group_coordinator.jobs.topic_patterns import PatternError, matcher_of
from group_coordinator.jobs.topic_questions import Asking

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping

__all__ = ["Matching", "Memory"]

log = logging.getLogger(__name__)

_KEPT_S = 1.0
"""How long a list of topics is as good as a new one, ..."""
_OF_THE_TIME = 10
"""... or this many times as long as it took to get it, if that is longer."""
_MOST_REMEMBERED = 500_000
"""Names in all that is remembered of patterns: some megabytes."""


class Memory:
    """The topics that there are, and those that patterns match. `own`: topics that no pattern matches."""

    def __init__(self, own: Collection[str]) -> None:
        self._own = own
        self._topics: dict[str, TopicFacts] = {}
        self._version = 0
        self._matched: dict[str, tuple[int, Matched, frozenset[str]]] = {}
        """By pattern: the version of the list, the topics that match, and the names that it was matched with.

        The one that was asked for last stands last.
        """
        self._remembered = 0

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


class Matching:
    """Matches patterns for `Patterns`. `told` is called in the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        told: Callable[[Mapping[str, Matched]], Any],
        kafka_config: Mapping[str, Any],
        own_topics: Collection[str],
    ) -> None:
        self._loop, self._told, self._kafka_config = Loop(loop), told, kafka_config
        self._thread = ThreadPoolExecutor(1, "gateway's patterns")
        self._asking: Asking | None = None
        self._memory = Memory(own_topics)
        self._digest = b""
        self._good_until_s = 0.0
        self._is_failing = False

    def ask(self, patterns: list[str]) -> None:
        """Match these patterns, and return at once."""
        look_at(self._thread.submit(self._ask, patterns))

    def close(self) -> None:
        """Disconnect."""
        self._thread.shutdown(cancel_futures=True)
        if self._asking is not None:
            self._asking.close()

    def _ask(self, patterns: list[str]) -> None:
        matched: dict[str, Matched] = {}
        try:
            self._list()
            matched = {each: self._memory.match(each) for each in patterns}
            self._is_failing = False
        except (KafkaError, UnreachableError, MalformedAnswerError, OSError) as error:
            if not self._is_failing:
                log.warning("topics cannot be listed: members with patterns wait until they can: %s", error)
            self._is_failing = True
        finally:
            self._loop.call(self._told, matched)

    def _list(self) -> None:
        begin_s = time.monotonic()
        if begin_s < self._good_until_s:
            return
        if self._asking is None:
            self._asking = Asking(self._kafka_config)
        topics = self._asking.ask(None)
        digest = blake2b(topics).digest()
        if digest != self._digest:
            said = read_topics(topics)
            self._memory.take(
                {
                    name: TopicFacts(name, it.partitions, it.topic_id)
                    for name, it in said.items()
                    if it.partitions and it.topic_id
                }
            )
            self._digest = digest
        end_s = time.monotonic()
        self._good_until_s = end_s + max(_KEPT_S, _OF_THE_TIME * (end_s - begin_s))
