"""Metrics of the watch over the topics of consumer groups."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["TopicMetrics"]


class TopicMetrics:
    """The topics at brokers that the coordinator watches. All is 0 while it does not watch, as a standby."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._watches = False
        gauge = partial(Gauge, registry=registry)
        self._watched = gauge(
            "group_coordinator_topics_watched",
            "Topics that consumer groups name, and brokers are asked about.",
        )
        self._unseen = gauge(
            "group_coordinator_topics_unseen", "Of them, topics that the coordinator may not describe."
        )
        self._last = gauge(
            "group_coordinator_topics_last_watched_timestamp_seconds",
            "When brokers have told of all topics last, and groups could be told.",
        )
        self._written = Counter(
            "group_coordinator_topic_metadata_written",
            "Records of topic metadata written to groups.",
            registry=registry,
        )

    def begun(self, watched: int) -> None:
        """Watching begins. After a failure nothing has been watched since before that."""
        self._watched.set(watched)
        if not self._watches:
            self._watches = True
            self._last.set(time.time())

    def looked(self, watched: int, unseen: int, *, is_complete: bool) -> None:
        """A round of questions is over. `is_complete`: without a problem."""
        self._watched.set(watched)
        self._unseen.set(unseen)
        if is_complete:
            self._last.set(time.time())

    def wrote(self, records: int) -> None:
        """So many records are written."""
        self._written.inc(records)

    def ended(self) -> None:
        """Nobody watches here, or any more."""
        self._watches = False
        for gauge in (self._watched, self._unseen, self._last):
            gauge.set(0)
