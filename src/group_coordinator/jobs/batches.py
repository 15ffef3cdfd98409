"""Whether the query's batches come to an end, and how far they have read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from group_coordinator.jobs.listener import QueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

Offsets = dict[str, dict[int, int]]
"""Of topics and partitions; as an end offset: of the first record that is not in the batch."""

_decode = msgspec.json.Decoder(Offsets | None).decode


class BatchWatch(QueryListener):
    """Knows when the newest batch has ended, and where.

    `may_idle`: a look that finds nothing to do also counts as a batch. Where ticks should come it does not.
    """

    def __init__(self, query_name: str, *, may_idle: bool = False) -> None:
        super().__init__(query_name)
        self._may_idle = may_idle
        self._ended_at = self._caught_up_at = time.monotonic()
        self.groups: int | None = None
        """How many there were in the state after the newest batch; None before the first."""
        self.read: Offsets = {}
        """Where the newest batch has ended, or the first one begins; of all queries, as a new one goes on
        there."""
        self.caught_up: Offsets = {}
        """Where the newest batch of this query has ended that has read all there was."""

    @property
    def silent_ms(self) -> float:
        """The time since a batch has ended, or since the query was started, in ms."""
        return (time.monotonic() - self._ended_at) * 1000

    @property
    def behind_ms(self) -> float:
        """The time since a batch has read all there was, or since the query was started, in ms."""
        return (time.monotonic() - self._caught_up_at) * 1000

    def restart(self) -> None:
        """A query is about to be started; what is still told of the one before does not count."""
        self._run_id = None
        self._ended_at = self._caught_up_at = time.monotonic()
        self.groups = None
        self.caught_up = {}

    def batch_ended(self, progress: StreamingQueryProgress) -> None:
        """Note that a batch has ended."""
        self._ended_at = time.monotonic()
        self.groups = sum(each.numRowsTotal for each in progress.stateOperators)
        (source,) = progress.sources
        self.read = _decode(source.endOffset) or self.read
        if source.endOffset == source.latestOffset:
            self._caught_up_at = self._ended_at
            self.caught_up = self.read

    def idled(self, timestamp: str) -> None:  # noqa: ARG002 - it is later than the last
        """Note that a batch was not needed, if that is all right."""
        if self._may_idle:
            self._ended_at = time.monotonic()
            self.groups = self.groups or 0
