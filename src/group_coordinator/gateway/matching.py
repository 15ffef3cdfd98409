"""Kafka's list of topics, and the patterns that are matched with it, in a thread of its own.

Ten thousand topics are 5 MB, and to match their names with a pattern takes a tenth of a second. So the list
is asked for once a second at most, and only while somebody wants to know.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from group_coordinator.gateway.stream import Loop
from group_coordinator.jobs.connection import UnreachableError
from group_coordinator.jobs.threads import look_at
from group_coordinator.jobs.topic_answers import MalformedAnswerError
from group_coordinator.jobs.topic_memory import Memory
from group_coordinator.jobs.topic_questions import Asking

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping

    from group_coordinator.jobs.topic_patterns import Matched

log = logging.getLogger(__name__)

_KEPT_S = 1.0
"""How long a list of topics is as good as a new one, ..."""
_OF_THE_TIME = 10
"""... or this many times as long as it took to get it, if that is longer."""


class Matching:
    """Matches patterns for `Patterns`. `told` is called in the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        told: Callable[[str, Matched | None], Any],
        kafka_config: Mapping[str, Any],
        own_topics: Collection[str],
    ) -> None:
        self._loop, self._told, self._kafka_config = Loop(loop), told, kafka_config
        self._thread = ThreadPoolExecutor(1, "gateway's patterns")
        self._asking: Asking | None = None
        self._memory = Memory(own_topics)
        self._good_until_s = 0.0
        self._is_failing = self._is_closing = False

    def ask(self, patterns: list[str]) -> None:
        """Match these patterns, and return at once."""
        look_at(self._thread.submit(self._ask, patterns))

    def close(self) -> None:
        """Disconnect. Patterns that are not matched yet are not waited for."""
        self._is_closing = True
        self._thread.shutdown(cancel_futures=True)
        if self._asking is not None:
            self._asking.close()

    def _ask(self, patterns: list[str]) -> None:
        has_list = self._has_list()
        for each in patterns:
            if self._is_closing:
                return
            self._loop.call(self._told, each, self._memory.match(each) if has_list else None)

    def _has_list(self) -> bool:
        try:
            self._list()
        except (KafkaError, UnreachableError, MalformedAnswerError, OSError) as error:
            if not self._is_failing:
                log.warning("topics cannot be listed: members with patterns wait until they can: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False
        return not self._is_failing

    def _list(self) -> None:
        begin_s = time.monotonic()
        if begin_s < self._good_until_s:
            return
        if self._asking is None:
            self._asking = Asking(self._kafka_config)
        self._memory.listed(self._asking.ask(None))
        end_s = time.monotonic()
        self._good_until_s = end_s + max(_KEPT_S, _OF_THE_TIME * (end_s - begin_s))
