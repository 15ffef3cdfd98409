"""The job that writes the history: from the first check to the clean end."""

from __future__ import annotations

import itertools
import logging
import math
from contextlib import ExitStack
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from kafka.errors import NoError, for_code
from prometheus_client import CollectorRegistry, ProcessCollector
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from checkpoints.errors import first_line
from history.errors import HistoryError
from history.metrics import HistoryMetrics
from history.query import QUERY_NAME, start_query
from history.storage import SESSION_DEFAULTS, Retention, prepare_tables
from history.writer import HistoryWriter
from streaming.batches import BatchWatch
from streaming.connection import UnreachableError, admin_client
from streaming.health import Activity, Health
from streaming.job import failing_as, spark_until_stopped
from streaming.kafka_config import python_client_config
from streaming.metrics import BatchMetrics, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.signals import StopEvent
    from streaming.settings import Settings

__all__ = ["write_history"]

_log = logging.getLogger(__name__)
_LOOK_S = 0.2
_LATE_MS = 120_000
"""A batch that takes longer is no sign of a history that is up to date."""
_HANGS_MS = 3_600_000
"""Longer than any batch takes, also when it deletes the files of a day from an object store."""


def write_history(
    settings: Settings, say: Callable[[str], None], *, once: bool = False, progress: bool = False
) -> None:
    """Write `settings.history_path` until SIGTERM or SIGINT; with `once`, until all events are in it.

    `say` is given a line for each thing a person waits for. Must be called in the main thread. Raises
    `HistoryError` if it cannot go on, `JarError` and `SettingsError`; starting again goes on there.
    """
    with failing_as(HistoryError, settings.bootstrap_servers):
        _look_for_topic(settings)
        with spark_until_stopped(
            settings, say, progress=progress, storage=settings.history_path, defaults=SESSION_DEFAULTS
        ) as (spark, stopping):
            _run(spark, stopping, settings, say, once=once)


def _look_for_topic(settings: Settings) -> None:
    client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
    try:
        with admin_client(client_config) as admin:
            (topic,) = admin.describe_topics([settings.topics_events])
    except UnreachableError as error:
        raise HistoryError(f"Kafka at {settings.bootstrap_servers}: {error}") from None
    if topic["error_code"] != NoError.errno:
        raise HistoryError(
            f"topic {settings.topics_events} cannot be read: {for_code(topic['error_code']).__name__}. The "
            "coordinator creates it; topics.events says what it is called"
        )


def _run(
    spark: SparkSession,
    stopping: StopEvent,
    settings: Settings,
    say: Callable[[str], None],
    *,
    once: bool,
) -> None:
    registry = CollectorRegistry()
    metrics = HistoryMetrics(registry, QUERY_NAME)
    batches = BatchWatch(QUERY_NAME, may_idle=True)
    health = Health(batches, settings.history_interval_ms + _LATE_MS)
    patience_ms = settings.history_interval_ms + _HANGS_MS
    with ExitStack() as stack:
        # With `once` there is nobody who could look in time.
        if settings.history_metrics_port >= 0 and not once:
            ProcessCollector(registry=registry)
            for listener in (BatchMetrics(registry, QUERY_NAME, is_stateful=False), metrics, batches):
                spark.streams.addListener(listener)
            port, close = serve(
                settings.history_metrics_port, registry, health, setting="history.metrics.port"
            )
            stack.callback(close)
            say(f"metrics are at http://localhost:{port}/metrics")

        prepare_tables(spark, settings.history_path)
        writer = HistoryWriter(spark, settings.history_path)
        retention = Retention(spark, settings.history_path, settings.history_retention_days)
        failures: list[Exception] = []
        numbers = itertools.count()

        def take(batch: DataFrame, _batch_id: int) -> None:
            try:
                # It takes its time: who is killed soon after each start would never end its first batch.
                if next(numbers) > 0:
                    metrics.removed(retention.apply(_today()))
                metrics.wrote(writer.write(batch))
            except Exception as error:
                # Spark only tells that there was one.
                failures.append(error)
                raise

        batches.restart()
        query = start_query(spark, settings, take, once=once)
        say(f"the history is written to {settings.history_path}")
        while query.isActive and not stopping.wait(_LOOK_S):
            # A first batch may be one that a restart only made begin anew, and have far to go.
            health.does(Activity.WRITING_HISTORY, math.inf if batches.groups is None else patience_ms)
        health.does(Activity.STOPPING)
        # In the middle of a batch, too: what it has not told is told when it runs again.
        query.stop()
    if not stopping.is_set():
        _check(query, failures, once=once)
        if once:
            retention.apply(_today())
    say("stopped" if stopping.is_set() else "all events are in it")


def _today() -> date:
    return datetime.now(UTC).date()


def _check(query: StreamingQuery, failures: list[Exception], *, once: bool) -> None:
    """Whether the query has ended as it should. Raises `HistoryError`."""
    error = query.exception()
    if error is not None:
        _log.error("%s", error)
        why = failures[-1] if failures else error
        is_sparks = isinstance(why, PySparkException | Py4JJavaError)
        raise HistoryError(f"the query failed: {first_line(why) if is_sparks else why}")
    if not once:
        raise HistoryError("the query was ended from outside")
