"""The job that writes the history: from the first check to the clean end."""

from __future__ import annotations

import itertools
import logging
import math
from contextlib import ExitStack
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from kafka.errors import NoError, for_code
from prometheus_client import CollectorRegistry, ProcessCollector
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.places import offsets_at
from group_coordinator.checkpoints.topics import ids_of, topics_of
from group_coordinator.history.errors import HistoryError
from group_coordinator.history.identity import CHECKPOINT, claim_history
from group_coordinator.history.lag_query import LagQuery
from group_coordinator.history.metrics import HistoryMetrics
from group_coordinator.history.places import place_of
from group_coordinator.history.query import start_query
from group_coordinator.history.storage import SESSION_DEFAULTS, Retention, prepare_tables
from group_coordinator.history.tables import EVENTS
from group_coordinator.history.writer import HistoryWriter
from group_coordinator.jobs.batch_metrics import BatchMetrics
from group_coordinator.jobs.batches import BatchWatch
from group_coordinator.jobs.connection import UnreachableError, admin_client
from group_coordinator.jobs.endpoint import serving
from group_coordinator.jobs.health import Activity, Health
from group_coordinator.jobs.java_errors import first_line, with_stack
from group_coordinator.jobs.job import failing_as, spark_until_stopped
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.session import SHORT_LIVED
from group_coordinator.jobs.unread import UnreadWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.history.settings import HistorySettings
    from group_coordinator.jobs.signals import StopEvent

_log = logging.getLogger(__name__)
_QUERY_NAME = "group-coordinator-history"
_LOOK_S = 0.2
_KAFKAS_ERRORS = "org.apache.kafka.common.errors."
_LATE_MS = 120_000
"""A batch that takes longer is no sign of a history that is up to date."""
_HANGS_MS = 3_600_000
"""Longer than any batch takes, also when it deletes the files of a day from an object store."""


def write_history(
    settings: HistorySettings, say: Callable[[str], None], *, once: bool = False, progress: bool = False
) -> None:
    """Write `settings.history_path` until SIGTERM or SIGINT; with `once`, until all events are in it.

    `say` is given a line for each thing a person waits for. Must be called in the main thread. Raises
    `HistoryError` if it cannot go on, `JarError` and `SettingsError`; starting again goes on there.
    """
    place_of(settings.history_path)
    with failing_as(HistoryError, settings.bootstrap_servers), ExitStack() as stack:
        client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
        vitals = _Vitals(settings)
        # With `once` there is nobody who could look in time.
        port = -1 if once else settings.history_metrics_port
        # First of all: if somebody else has the port, nobody has to wait for Spark to be told.
        stack.enter_context(
            serving(settings.metrics_host, port, vitals.registry, vitals.health, say, "history.metrics.port")
        )
        say(f"connecting to Kafka at {settings.bootstrap_servers}")
        topic_ids = _read_topic_ids(settings, client_config)
        spark, stopping = stack.enter_context(
            spark_until_stopped(
                settings,
                say,
                progress=progress,
                storage=settings.history_path,
                defaults=SESSION_DEFAULTS | (SHORT_LIVED if once else {}),
            )
        )
        try:
            path = CheckpointFiles(spark, settings.history_path).absolute()
            settings = msgspec.structs.replace(settings, history_path=path)
            claim_history(
                spark,
                settings,
                event_ends=lambda: offsets_at(client_config, settings.topics_events, "latest"),
                topic_ids=topic_ids,
            )
        except CheckpointError as error:
            raise HistoryError(str(error)) from None
        if port >= 0:
            vitals.begin(spark)
            lag = UnreadWatch(settings.topics_events, client_config, lambda: vitals.batches.read)
            vitals.registry.register(stack.enter_context(lag))
        lag_query = LagQuery(spark, settings, client_config, vitals.metrics.wrote, once=once)
        _write(spark, stopping, settings, vitals, lag_query, say, once=once)


def _read_topic_ids(settings: HistorySettings, client_config: Mapping[str, Any]) -> dict[str, str]:
    """The ids of the topics of events and of the input, of those that Kafka tells."""
    events = settings.topics_events
    try:
        with admin_client(client_config) as admin:
            # Of the input it is enough to know which it is, where that may be known.
            described = admin.describe_topics([events, settings.input_topic])
    except UnreachableError as error:
        raise HistoryError(f"Kafka at {settings.bootstrap_servers}: {error}") from None
    (error_code,) = (topic["error_code"] for topic in described if topic["name"] == events)
    if error_code != NoError.errno:
        raise HistoryError(
            f"topic {events} cannot be read: {for_code(error_code).__name__}. {settings.writer.capitalize()} "
            f"creates it; {settings.named('topics.events')} says what it is called"
        )
    return ids_of(topics_of(described))


class _Vitals:
    """All that tells how the job is: to Prometheus, to probes, and to the job itself."""

    def __init__(self, settings: HistorySettings) -> None:
        self.registry = CollectorRegistry()
        self.metrics = HistoryMetrics(self.registry, _QUERY_NAME)
        self.batches = BatchWatch(_QUERY_NAME, may_idle=True)
        self.health = Health(self.batches, settings.history_interval_ms + _LATE_MS)

    def begin(self, spark: SparkSession) -> None:
        """Listen to the session's queries."""
        ProcessCollector(registry=self.registry)
        for listener in (
            BatchMetrics(self.registry, _QUERY_NAME, is_stateful=False),
            self.metrics,
            self.batches,
        ):
            spark.streams.addListener(listener)


def _write(
    spark: SparkSession,
    stopping: StopEvent,
    settings: HistorySettings,
    vitals: _Vitals,
    lag_query: LagQuery,
    say: Callable[[str], None],
    *,
    once: bool,
) -> None:
    patience_ms = settings.history_interval_ms + _HANGS_MS
    say(f"looking at the tables under {settings.history_path}")
    are_new = prepare_tables(spark, settings.history_path)
    writer = HistoryWriter(spark, settings)
    retention = Retention(spark, settings.history_path, settings.history_retention_days)
    if are_new:
        retention.done(_today())
    failures: list[Exception] = []
    numbers = itertools.count()

    def take(batch: DataFrame, _batch_id: int) -> None:
        try:
            # It takes long: a job that is killed soon after each start would never end its first batch.
            if next(numbers) > 0:
                vitals.metrics.removed(retention.apply(_today()))
            written = writer.write(batch)
            vitals.metrics.wrote(written)
            if once:
                say(f"{written.rows.get(EVENTS.name, 0)} events are written")
        except Exception as error:
            # Spark only tells that there was one.
            failures.append(error)
            raise

    vitals.batches.restart()
    query = start_query(
        spark,
        settings,
        take,
        _QUERY_NAME,
        topic=settings.topics_events,
        checkpoint=CHECKPOINT,
        most=settings.history_max_events,
        interval_ms=None if once else settings.history_interval_ms,
    )
    if once:
        say(f"writing all events to {settings.history_path}, which takes ten seconds or more")
    else:
        say(f"the history is written to {settings.history_path}")
    while (query.isActive or (once and lag_query.look())) and not stopping.wait(_LOOK_S):
        lag_query.look()
        # A first batch may be one that runs again after a restart, and may have far to go.
        vitals.health.does(
            Activity.WRITING_HISTORY, math.inf if vitals.batches.groups is None else patience_ms
        )
    vitals.health.does(Activity.STOPPING)
    # Even in the middle of a batch, because it runs again at the next start.
    query.stop()
    lag_query.stop()
    if not stopping.is_set():
        _check(query, failures, settings.bootstrap_servers, once=once)
        if once:
            retention.apply(_today())
    say("stopped" if stopping.is_set() else "all events are in it")


def _today() -> date:
    return datetime.now(UTC).date()


def _check(query: StreamingQuery, failures: list[Exception], bootstrap_servers: str, *, once: bool) -> None:
    """Whether the query has ended as it should. Raises `HistoryError`."""
    error = query.exception()
    if error is not None:
        why = failures[-1] if failures else error
        said = first_line(why) if isinstance(why, PySparkException | Py4JJavaError) else str(why)
        if said.startswith(_KAFKAS_ERRORS):
            raise HistoryError(f"Kafka at {bootstrap_servers}: {said.partition(': ')[2]}")
        _log.error("%s", with_stack(error))
        raise HistoryError(f"the query failed: {said}")
    if not once:
        raise HistoryError("the query was ended from outside")
