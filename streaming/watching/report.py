"""Metrics of the watch over topics, and a line of the log when something changes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from group_coordinator.streaming.metrics import TopicMetrics
    from group_coordinator.streaming.watching.watch import Watch

__all__ = ["Report"]

_log = logging.getLogger(__name__)


class Report:
    """Tells each problem once, and once that it is over."""

    def __init__(self, metrics: TopicMetrics) -> None:
        self._metrics = metrics
        self._problem: str | None = None
        self._unlisted: str | None = None
        self._has_unseen = self._has_left_out = self._has_untold = False

    def begun(self, watch: Watch) -> None:
        """Watching begins, or begins again after a failure."""
        self._metrics.begun(len(watch.watched))

    def looked(self, watch: Watch, problem: str | None) -> None:
        """A round is over."""
        self.has_problem(problem)
        unseen, left_out = watch.unseen, watch.left_out
        self._metrics.looked(len(watch.watched), len(unseen), is_complete=problem is None)
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
        self._metrics.wrote(records)

    def ended(self) -> None:
        """Watching ends, or another coordinator does it from now on."""
        self._metrics.ended()

    def has_problem(self, problem: str | None) -> None:
        """There is this problem, or none."""
        if problem is None and self._problem is not None:
            _log.info("topics of consumer groups are watched again")
        elif problem != self._problem:
            _log.warning("topics of consumer groups are not watched: %s", problem)
        self._problem = problem


def _any_of(names: Iterable[str]) -> str:
    return next(iter(names))
