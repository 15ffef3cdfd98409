"""Metrics of the watch over topics, and a line of the log when something changes."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client import CollectorRegistry

    from group_coordinator.streaming.watching.watch import Watch

_log = logging.getLogger(__name__)


class Report:
    """Tells each problem once, and once that it is over. While nobody watches here all metrics are 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
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
        self._watches = False
        self._problem: str | None = None
        self._unlisted: str | None = None
        self._has_unseen = self._has_left_out = self._has_untold = False

    def begun(self, watch: Watch) -> None:
        """Watching begins, or begins again after a failure: nothing has been watched since before that."""
        self._watched.set(len(watch.watched))
        if not self._watches:
            self._watches = True
            self._last.set(time.time())

    def looked(self, watch: Watch, problem: str | None) -> None:
        """A round is over."""
        self.has_problem(problem)
        unseen, left_out = watch.unseen, watch.left_out
        self._watched.set(len(watch.watched))
        self._unseen.set(len(unseen))
        if problem is None:
            self._last.set(time.time())
        if unseen and not self._has_unseen:
            _log.warning(
                "%d topics of consumer groups may not be seen, such as %s: grant Describe on them. Their "
                "groups go on with what they know",
                len(unseen),
                _any_of(unseen),
            )
        if left_out and not self._has_left_out:
            _log.warning(
                "all groups together name so many topics that those of %d groups are not watched, such as %s",
                len(left_out),
                _any_of(left_out),
            )
        self._has_unseen, self._has_left_out = bool(unseen), bool(left_out)

    def cannot_list(self, problem: str | None) -> None:
        """All topics were asked for, for the patterns that members leave to the watcher."""
        if problem is not None and self._unlisted is None:
            _log.warning(
                "topics cannot be listed, so patterns of consumer groups are not resolved: %s", problem
            )
        self._unlisted = problem

    def has_untold(self, patterns: Mapping[str, str]) -> None:
        """Groups are not told what these patterns match, each for a reason."""
        if patterns and not self._has_untold:
            _log.warning(
                "%d patterns of consumer groups are not resolved, such as this one. %s",
                len(patterns),
                _any_of(patterns.values()),
            )
        self._has_untold = bool(patterns)

    def wrote(self, records: int) -> None:
        """So many records are written."""
        self._written.inc(records)

    def ended(self) -> None:
        """Watching ends, or another coordinator does it from now on."""
        self._watches = False
        for gauge in (self._watched, self._unseen, self._last):
            gauge.set(0)

    def has_problem(self, problem: str | None) -> None:
        """There is this problem, or none."""
        if problem is None and self._problem is not None:
            _log.info("topics of consumer groups are watched again")
        elif problem != self._problem:
            _log.warning("topics of consumer groups are not watched: %s", problem)
        self._problem = problem


def _any_of(names: Iterable[str]) -> str:
    return next(iter(names))
