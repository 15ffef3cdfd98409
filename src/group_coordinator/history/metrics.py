"""The metrics of the job that writes the history, apart from those of any query's batches."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

from group_coordinator.history.tables import ALL_TABLES
from group_coordinator.jobs.listener import QueryListener

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from group_coordinator.history.writer import Written


class HistoryMetrics(QueryListener):
    """Metrics of the tables and of what was written, as the writer and Spark's named query tell them.

    A value that is not known yet is NaN. Labels are there from the start, with 0.
    """

    def __init__(self, registry: CollectorRegistry, query_name: str) -> None:
        super().__init__(query_name)

        def gauge(name: str, documentation: str) -> Gauge:
            made = Gauge(f"group_coordinator_history_{name}", documentation, registry=registry)
            made.set(math.nan)
            return made

        self._unwritten = gauge("unwritten_events", "Events that the newest batch left in the topic.")
        self._complete = gauge(
            "complete_timestamp_seconds", "The newest time of which it is known that no event was missing."
        )
        self._newest = gauge("newest_event_timestamp_seconds", "Time of the newest event that was written.")
        self._committed = gauge("last_commit_timestamp_seconds", "When the newest batch was committed.")
        self._rows = Counter(
            "group_coordinator_history_rows_merged",
            "Rows added and changed.",
            ["table"],
            registry=registry,
        )
        for table in ALL_TABLES:
            self._rows.labels(table.name)
        self._days = Counter(
            "group_coordinator_history_partitions_removed",
            "Partitions of the table of events, each a day, that the retention has taken out.",
            registry=registry,
        )

    def wrote(self, written: Written) -> None:
        """A batch is in the tables."""
        for table, count in written.rows.items():
            self._rows.labels(table).inc(count)
        if written.newest_ms is not None:
            self._newest.set(written.newest_ms / 1000)

    def removed(self, days: int) -> None:
        """The retention has taken out so many days."""
        self._days.inc(days)

    def batch_ended(self, progress: StreamingQueryProgress) -> None:
        """Note how far it went."""
        self._committed.set_to_current_time()
        unwritten = _unwritten(progress)
        if unwritten is not None:
            self._unwritten.set(unwritten)
            if unwritten == 0:
                self._is_complete(progress.timestamp)

    def idled(self, timestamp: str) -> None:
        """It has looked, and there was nothing to be written."""
        self._unwritten.set(0)
        self._is_complete(timestamp)

    def _is_complete(self, trigger: str) -> None:
        # How far the topic goes is asked after the trigger, so what was there by then is written.
        self._complete.set(datetime.fromisoformat(trigger).timestamp())


def _unwritten(progress: StreamingQueryProgress) -> int | None:
    """None if Spark did not ask how far the topic goes, as before a batch that runs again."""
    (topic,) = progress.sources
    # pyspark makes a text of Spark's null, "null" or "None".
    if not (topic.latestOffset.startswith("{") and topic.endOffset.startswith("{")):
        return None
    return _sum(topic.latestOffset) - _sum(topic.endOffset)


def _sum(offsets: str) -> int:
    return sum(sum(of_topic.values()) for of_topic in json.loads(offsets).values())
