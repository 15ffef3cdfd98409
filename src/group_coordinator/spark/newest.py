"""Offsets that wait to be committed: of each partition of a group the newest, however long that takes."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from kafka.structs import OffsetAndMetadata, TopicPartition

GroupOffsets = dict[TopicPartition, OffsetAndMetadata]


class NewestOffsets:
    """Takes offsets at any time without waiting, and gives out all that there are at once.

    It keeps one offset for each partition of each group, so it cannot grow while nothing is committed.
    """

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._waiting: dict[str, GroupOffsets] = {}
        self._is_closed = False
        self.superseded = 0
        """Offsets that were replaced by newer ones before they were committed."""

    def put(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Add the newest offsets of a group."""
        with self._news:
            waiting = self._waiting.setdefault(group_id, {})
            self.superseded += len(waiting.keys() & offsets.keys())
            waiting.update(offsets)
            self._news.notify_all()

    def put_back(self, offsets: Mapping[str, GroupOffsets]) -> None:
        """Add offsets that could not be committed, unless newer ones have come meanwhile."""
        with self._news:
            for group_id, of_group in offsets.items():
                waiting = self._waiting.setdefault(group_id, {})
                self.superseded += len(waiting.keys() & of_group.keys())
                self._waiting[group_id] = of_group | waiting

    def take(self) -> dict[str, GroupOffsets]:
        """Wait for offsets and take them out; empty once there are none and it is closed."""
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._is_closed)
            taken, self._waiting = self._waiting, {}
            return taken

    def close(self) -> None:
        """Have `take` wait no more."""
        with self._news:
            self._is_closed = True
            self._news.notify_all()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def wait_for_close(self, timeout_s: float) -> None:
        """Wait until it is closed, for `timeout_s` at most."""
        with self._news:
            self._news.wait_for(lambda: self._is_closed, timeout_s)
