"""`CommitOffsets`: the listener that Spark tells of batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kafka.structs import OffsetAndMetadata
from pyspark.sql.streaming.listener import StreamingQueryListener

from group_coordinator.client.admin import AdminClient
from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.channel import check_settings
from group_coordinator.coordinator_state.topics import REQUESTS, RESPONSES
from group_coordinator.spark.committer import Committer, Counts, Destination
from group_coordinator.spark.newest import GroupOffsets
from group_coordinator.spark.progress import end_offsets

if TYPE_CHECKING:
    from uuid import UUID

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger(__name__)

_REFRESH_S = 3_600.0
"""How often the offsets of a query that has nothing to do are committed again, lest they expire."""


class _Reached(NamedTuple):
    """The newest offsets of a query, and when they were handed on, in seconds of a monotonic clock."""

    group_id: str
    offsets: GroupOffsets
    at_s: float


class CommitOffsets(StreamingQueryListener):
    """Commits how far queries have read, after each batch, for groups that are named after them.

        listener = CommitOffsets(bootstrap_servers="kafka:9092")
        spark.streams.addListener(listener)

    Each query of the session with Kafka sources is a group without members. Its checkpoint stays what Spark
    goes by: nothing reads the commits back. A query never waits for them. While they cannot be written the
    newest wait, and a log line says why. A batch that fails commits nothing.

    `group_id`: the name of the groups. `{name}` is the query's name, or its id if it has none. `{id}` is its
    id, which stays the same over restarts. Let no consumer use that group: commits are refused while
    it has members. `to`: "coordinator", or "brokers" for Kafka's own groups. `request_topic` and
    `response_topic` are the coordinator's. Other settings: those of kafka-python's clients.

    Raises ValueError for a `group_id` or a setting that cannot be.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        group_id: str = "{name}",
        to: Literal["coordinator", "brokers"] = "coordinator",
        request_topic: str = REQUESTS,
        response_topic: str = RESPONSES,
        **kafka_config: Any,
    ) -> None:
        self._group_id = group_id
        try:
            self._group_of("name", "id")
        except (KeyError, IndexError, ValueError):
            raise ValueError(f"group_id {group_id!r}: only {{name}} and {{id}} can be in it") from None
        if to not in ("coordinator", "brokers"):
            raise ValueError(f'to {to!r}: it is "coordinator" or "brokers"')
        check_settings(kafka_config)
        kafka_config["bootstrap_servers"] = bootstrap_servers

        def connect() -> Destination:
            if to == "brokers":
                return BrokersAdmin(**kafka_config)
            return AdminClient(request_topic=request_topic, response_topic=response_topic, **kafka_config)

        self._committer = Committer(connect)
        self._reached: dict[UUID, _Reached] = {}
        """By the id of the run, of queries that run."""

    @property
    def counts(self) -> Counts:
        """The numbers of offsets that were committed, superseded and refused."""
        return self._committer.counts

    @property
    def problem(self) -> str | None:
        """The reason why offsets are not committed just now; None if they are."""
        return self._committer.problem

    def close(self, timeout_s: float = 5.0) -> None:
        """Commit what waits, for `timeout_s` at most, and disconnect. Remove the listener before."""
        self._committer.close(timeout_s)

    # -- what Spark calls ------------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Wait for its first batch: where it goes on is in its checkpoint."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit the offsets that the batch has reached."""
        progress = event.progress
        try:
            reached = end_offsets(progress.sources)
        except ValueError as error:
            log.warning("the offsets of query %s are not committed: %s", progress.name or progress.id, error)
            return
        if reached:
            metadata = f"batch {progress.batchId}"
            offsets = {each: OffsetAndMetadata(offset, metadata, -1) for each, offset in reached.items()}
            group_id = self._group_of(progress.name or str(progress.id), str(progress.id))
            self._commit(progress.runId, group_id, offsets)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Commit its offsets again now and then."""
        reached = self._reached.get(event.runId)
        if reached is not None and time.monotonic() - reached.at_s >= _REFRESH_S:
            self._commit(event.runId, reached.group_id, reached.offsets)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget it; its group stays for as long as offsets are kept."""
        self._reached.pop(event.runId, None)

    def _commit(self, run_id: UUID, group_id: str, offsets: GroupOffsets) -> None:
        self._reached[run_id] = _Reached(group_id, offsets, time.monotonic())
        self._committer.put(group_id, offsets)

    def _group_of(self, name: str, query_id: str) -> str:
        return self._group_id.format(name=name, id=query_id)
