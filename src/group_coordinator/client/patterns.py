"""A subscription by pattern: the topics whose names begin with a match, looked up again and again.

Source: SubscriptionState and ConsumerCoordinator of kafka-python and of Apache Kafka 4.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection

from kafka.errors import KafkaError

from group_coordinator.client.clock import now_ms

log = logging.getLogger(__name__)

_AGAIN_MS = 1_000
"""Between a look that has failed and the next."""
_INTERNAL = "__"


class TopicPattern:
    """The topics that match `pattern`, out of those that `look_up` tells, every `every_ms`.

    Each member looks for itself, as in Kafka: one that has seen a new topic owns it alone until the others
    have seen it. `with_internal`: also those of Kafka itself, whose names begin with two underscores.
    """

    def __init__(
        self, pattern: str, look_up: Callable[[], Collection[str]], every_ms: int, *, with_internal: bool
    ) -> None:
        self._pattern = re.compile(pattern)
        self._look_up, self._every_ms = look_up, every_ms
        self._with_internal = with_internal
        self._due = 0

    def topics(self) -> frozenset[str]:
        """Look now. Raises a KafkaError."""
        found = frozenset(
            topic
            for topic in self._look_up()
            if self._pattern.match(topic) and (self._with_internal or not topic.startswith(_INTERNAL))
        )
        self._due = now_ms() + self._every_ms
        return found

    def topics_if_due(self) -> frozenset[str] | None:
        """Look if it is time to, None if not, or if that fails in a way that may pass."""
        if now_ms() < self._due:
            return None
        try:
            return self.topics()
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("cannot look up the topics of %s, trying again: %s", self._pattern.pattern, error)
            self._due = now_ms() + _AGAIN_MS
            return None
