"""When a broker resolves the patterns of a group, as far as one can know it from outside.

A heartbeat makes it do so if a pattern is not resolved yet, or if topics have been made since. It does so
beside all else, and never within ten seconds of the last time. As long as a member has a pattern that the
broker resolved then, it knows when that was.

Source: GroupMetadataManager.maybeUpdateRegularExpressions of Apache Kafka 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.game import Inconclusive

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup

__all__ = ["Resolutions"]

_INTERVAL_MS = 10_000
"""REGEX_BATCH_REFRESH_MIN_INTERVAL_MS, which nobody can set."""
_MARGIN_MS = 100
"""The broker reads a clock of its own."""


class Resolutions:
    """Those of one group, in ms of the harness's time."""

    def __init__(self) -> None:
        self.may_run = False
        """Whether one was begun, or may have been, that was not waited for."""
        self.is_outdated = False
        """Whether the sequence has made a topic since the last one."""
        self._since_ms = 0
        """The one that may run has begun then or later. ..."""
        self._earliest_ms = self._latest_ms = 0
        """... And the last one before was in between these."""

    def beat(
        self, before: ConsumerGroup | None, after: ConsumerGroup | None, sent_ms: int, answered_ms: int
    ) -> None:
        """Take note of a heartbeat that was no error, by the group before and after it.

        Raises Inconclusive if one cannot know whether the broker resolves a pattern now.
        """
        if after is None or not after.subscriptions.resolved:
            return
        is_due = None in after.subscriptions.resolved.values()
        if not _has_resolved(before):
            self.may_run, self._since_ms = is_due, sent_ms
            return
        is_due |= self.is_outdated
        if answered_ms < self._earliest_ms + _INTERVAL_MS - _MARGIN_MS:
            return
        if is_due and sent_ms < self._latest_ms + _INTERVAL_MS + _MARGIN_MS:
            raise Inconclusive("the machine was held up until the broker could resolve patterns again")
        # If none is due it depends on the topics of others whether it looks anew. It finds the same.
        self.may_run, self._since_ms = True, sent_ms if is_due else self._earliest_ms

    def end(self, now_ms: int) -> None:
        """Take note that there is none any more."""
        self.may_run = self.is_outdated = False
        self._earliest_ms, self._latest_ms = self._since_ms, now_ms


def _has_resolved(group: ConsumerGroup | None) -> bool:
    resolved = {} if group is None else group.subscriptions.resolved
    return any(topics is not None for topics in resolved.values())
