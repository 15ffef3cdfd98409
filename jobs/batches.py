"""Whether the query's batches come to an end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from group_coordinator.jobs.listener import QueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

__all__ = ["BatchWatch"]


class BatchWatch(QueryListener):
    """Knows when the newest batch has ended.

    `may_idle`: a look that finds nothing to do also counts as a batch. Where ticks should come it does not.
    """

    def __init__(self, query_name: str, *, may_idle: bool = False) -> None:
        super().__init__(query_name)
        self._may_idle = may_idle
        self._ended_at = time.monotonic()
        self.groups: int | None = None
        """How many there were in the state after the newest batch; None before the first."""

    @property
    def silent_ms(self) -> float:
        """How long ago a batch has ended, or the query was started."""
        return (time.monotonic() - self._ended_at) * 1000

    def restart(self) -> None:
        """A query is about to be started; what is still told of the one before does not count."""
        self._run_id = None
        self._ended_at = time.monotonic()
        self.groups = None

    def batch_ended(self, progress: StreamingQueryProgress) -> None:
        """Note that a batch has ended."""
        self._ended_at = time.monotonic()
        self.groups = sum(each.numRowsTotal for each in progress.stateOperators)

    def idled(self, timestamp: str) -> None:  # noqa: ARG002 - it is later than the last
        """Note that a batch was not needed, if that is all right."""
        if self._may_idle:
            self._ended_at = time.monotonic()
            self.groups = self.groups or 0
