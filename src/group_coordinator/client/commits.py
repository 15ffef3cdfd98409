"""Commits and look-ups of committed offsets: futures, and the callbacks of the program."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafka.future import Future
from kafka.structs import OffsetAndMetadata

from group_coordinator.client.driver import Driver
from group_coordinator.client.offsets import Offsets, checked_offsets, checked_units
from group_coordinator.client.work import Unit

CommitCallback = Callable[[Offsets, Exception | None], object]
"""A function that is told of the end of a commit: its offsets, and None or the error. As in kafka-python."""


class Commits:
    """The commits and fetches of the member that `driver` drives."""

    def __init__(self, driver: Driver[Any]) -> None:
        self._driver = driver
        # Callbacks of commits that have ended. A thread of the program's still has to run them.
        self._due: deque[Callable[[], object]] = deque()

    @property
    def has_callbacks(self) -> bool:
        """Whether a callback waits for `run_callbacks`."""
        return bool(self._due)

    def commit(
        self, offsets: Mapping[Unit, int | OffsetAndMetadata], callback: CommitCallback | None = None
    ) -> Future:
        """Commit; see `GroupMember.commit_async`."""
        checked = checked_offsets(offsets)
        future = Future()
        if callback is not None:
            future.add_both(lambda _: self._due.append(lambda: callback(checked, future.exception)))
        if checked:
            self._driver.call(lambda membership: membership.commit(checked, future))
        else:
            future.success(None)
        return future

    def fetch(self, units: Collection[Unit], ends_at: int) -> Future:
        """Look up what is committed, until `ends_at` (ms); see `GroupMember.committed_async`."""
        wanted = checked_units(units)
        future = Future()
        if wanted:
            self._driver.call(lambda membership: membership.offset_calls.fetch(wanted, future, ends_at))
        else:
            future.success({})
        return future

    def run_callbacks(self) -> None:
        """Run the callbacks of the commits that have ended. Raises what they raise."""
        while True:
            try:
                callback = self._due.popleft()
            except IndexError:  # not asked before: several threads may be in here
                return
            callback()
