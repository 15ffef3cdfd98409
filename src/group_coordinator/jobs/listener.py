"""The listener by which the jobs learn of their query's batches."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    StreamingQueryListener,
)

if TYPE_CHECKING:
    from uuid import UUID

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

_RATES = ("inputRowsPerSecond", "processedRowsPerSecond")


class QueryListener(StreamingQueryListener):
    """Listens to the query named `query_name`. Subclasses override the methods that they need.

    pyspark's own listener asks the JVM for each figure of a batch by itself: hundreds of calls, which take
    longer than the batch did. Here it is one.
    """

    def __init__(self, query_name: str) -> None:
        self._query_name = query_name
        self._run_id: UUID | None = None
        self._of_java: Any = None

    def started(self) -> None:
        """The query is about to start."""

    def batch_ended(self, progress: StreamingQueryProgress) -> None:
        """A batch is committed."""

    def idled(self, timestamp: str) -> None:
        """Since the `timestamp` (ISO 8601) there has been nothing to do."""

    def terminated(self) -> None:
        """The query has ended."""

    # -- what Spark calls ------------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Note which run it is; Spark tells it before the query has started."""
        if event.name == self._query_name:
            self._run_id = event.runId
            self.started()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Tell it if it is of this run."""
        if event.progress.runId == self._run_id:
            self.batch_ended(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Tell it if it is of this run."""
        if event.runId == self._run_id:
            self.idled(event.timestamp)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Tell it if it is of this run."""
        if event.runId == self._run_id:
            self.terminated()

    @property
    def _jlistener(self) -> Any:
        """What pyspark registers with the JVM; the same each time, or it could not be removed."""
        if self._of_java is None:
            jvm: Any = SparkContext._jvm  # noqa: SLF001 - as pyspark's
            self._of_java = jvm.PythonStreamingQueryListenerWrapper(_OneCall(self))
        return self._of_java


class _OneCall(JStreamingQueryListener):
    def onQueryProgress(self, jevent: Any) -> None:
        told = json.loads(jevent.progress().json())
        for source in told["sources"]:
            # A rate that is not known is left out, which pyspark does not expect.
            for rate in _RATES:
                source.setdefault(rate, math.nan)
        self.pylistener.onQueryProgress(QueryProgressEvent.fromJson({"progress": told}))
