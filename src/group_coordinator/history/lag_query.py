"""Lag on its way into the history, beside the events. A failure of it ends nothing else."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError, NoError

from group_coordinator.client.messages import message_of
from group_coordinator.history.identity import LAG_CHECKPOINT
from group_coordinator.history.lag_writer import LagWriter
from group_coordinator.history.query import start_query
from group_coordinator.history.tables import LAG
from group_coordinator.history.writer import Written
from group_coordinator.jobs.connection import UnreachableError, admin_client
from group_coordinator.jobs.java_errors import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.history.settings import HistorySettings

_log = logging.getLogger(__name__)
_PATIENCE = {"bootstrap_timeout_ms": 3_000, "request_timeout_ms": 5_000}
"""The end of the job has to wait for as long."""
_QUERY_NAME = "group-coordinator-history-lag"
_MOST_MEASUREMENTS = 20_000
"""Of one batch: each may tell of many partitions."""
_AGAIN_S = 60.0
"""Between two looks for the topic, and before a query that has failed is started again."""


class LagQuery:
    """Runs the query for as long as there is a topic of lag. `wrote` is told of each batch.

    `once`: it ends when it has read what there is now.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: HistorySettings,
        client_config: Mapping[str, Any],
        wrote: Callable[[Written], None],
        *,
        once: bool,
    ) -> None:
        self._spark, self._settings, self._client_config = spark, settings, client_config
        self._wrote, self._once = wrote, once
        self._writer = LagWriter(spark, settings.history_path, settings.history_lag_interval_ms)
        self._query: StreamingQuery | None = None
        self._due_s = 0.0
        self._problem: str | None = None

    def look(self) -> bool:
        """Start it if it does not run; to be called again and again. Returns whether it is at work."""
        if self._query is not None:
            if self._query.isActive:
                return True
            error = self._query.exception()
            self._query = None
            if error is not None:
                self._have_problem(first_line(error))
            elif self._once:
                self._due_s = float("inf")
        if time.monotonic() < self._due_s:
            return False
        self._due_s = float("inf") if self._once else time.monotonic() + _AGAIN_S
        if self._is_there():
            settings = self._settings
            interval_ms = max(settings.history_interval_ms, settings.history_lag_interval_ms)
            self._query = start_query(
                self._spark,
                settings,
                self._take,
                _QUERY_NAME,
                topic=settings.topics_lag,
                checkpoint=LAG_CHECKPOINT,
                most=_MOST_MEASUREMENTS,
                interval_ms=None if self._once else interval_ms,
            )
        return self._query is not None

    def stop(self) -> None:
        """End it, even in the middle of a batch, because that runs again."""
        if self._query is not None:
            self._query.stop()

    def _take(self, batch: DataFrame, _batch_id: int) -> None:
        self._wrote(Written({LAG.name: self._writer.write(batch)}, None))
        self._problem = None

    def _is_there(self) -> bool:
        topic = self._settings.topics_lag
        if not topic:
            return False
        try:
            with admin_client({**self._client_config, **_PATIENCE}) as admin:
                (described,) = admin.describe_topics([topic])
        except (KafkaError, UnreachableError) as error:
            self._have_problem(message_of(error) if isinstance(error, KafkaError) else str(error))
            return False
        return bool(described["error_code"] == NoError.errno)

    def _have_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            _log.warning("lag is not written to the history, trying again: %s", problem)
