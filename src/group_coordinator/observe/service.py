"""The job that watches groups at the brokers: from the first check to the clean end."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kafka.errors import NoError, UnknownTopicOrPartitionError, for_code
from prometheus_client import CollectorRegistry, ProcessCollector

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.offset_log import newest_committed
from group_coordinator.checkpoints.topics import ids_of, topics_of
from group_coordinator.coordinator_state.topics import BROKERS_LOG
from group_coordinator.jobs.batch_metrics import BatchMetrics
from group_coordinator.jobs.batches import BatchWatch
from group_coordinator.jobs.connection import UnreachableError, admin_client
from group_coordinator.jobs.endpoint import serving
from group_coordinator.jobs.health import Activity, Health
from group_coordinator.jobs.java_errors import first_line, with_stack
from group_coordinator.jobs.job import failing_as, spark_until_stopped
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.unread import UnreadWatch
from group_coordinator.observe.function import ObserveFunction
from group_coordinator.observe.identity import claim_checkpoint
from group_coordinator.observe.names import TopicNames
from group_coordinator.observe.query import QUERY_NAME, USE_CONSUMER, start_query
from group_coordinator.observe.seen import Missed, Seen, SeenMetrics, SeenParam
from group_coordinator.streaming.daemon import daemon_defaults
from group_coordinator.streaming.topic_specs import picture_specs, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark import Accumulator
    from pyspark.sql import SparkSession

    from group_coordinator.jobs.signals import StopEvent
    from group_coordinator.observe.settings import ObserveSettings

_log = logging.getLogger(__name__)
_LOOK_S = 0.2
_WAIT_S = 2.0
_LATE_MS = 60_000
"""A batch that takes longer is no sign that the topics are up to date."""
_HANGS_MS = 1_800_000
"""Longer than any batch takes."""


class ObserveError(Exception):
    """The query did not start, or ended by itself; the message is one line. Starting again goes on there."""


def observe(settings: ObserveSettings, say: Callable[[str], None]) -> None:
    """Watch the groups at the brokers until SIGTERM or SIGINT.

    `settings` are of brokers (`of`). `say` is given a line for each thing a person waits for. Must be called
    in the main thread. Raises `ObserveError` if it cannot go on, `TopicError`, `JarError` and
    `SettingsError`; starting again goes on there.
    """
    with failing_as(ObserveError, settings.bootstrap_servers), ExitStack() as stack:
        client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
        registry = CollectorRegistry()
        batches = BatchWatch(QUERY_NAME)
        health = Health(batches, settings.observe_trigger_interval_ms + _LATE_MS)
        port = settings.observe_metrics_port
        # First of all: if somebody else has the port, nobody has to wait for Spark to be told.
        stack.enter_context(
            serving(settings.metrics_host, port, registry, health, say, "observe.metrics.port")
        )
        say(f"connecting to Kafka at {settings.bootstrap_servers}")
        prepare(picture_specs(settings), settings, client_config)
        spark, stopping = stack.enter_context(
            spark_until_stopped(
                settings,
                say,
                progress=True,
                storage=settings.observe_checkpoint,
                defaults=_session_defaults(settings),
            )
        )
        described = _await_topic(settings, client_config, stopping, health, say)
        if described is None:
            say("stopped")
            return
        files = CheckpointFiles(spark, settings.observe_checkpoint)
        try:
            claim_checkpoint(files, settings.observe_state_partitions, ids_of(topics_of([described])))
            done = newest_committed(files)
        except CheckpointError as error:
            raise ObserveError(str(error)) from None
        # Until the first batch of all has ended, all is unread.
        begin = {BROKERS_LOG: dict.fromkeys(range(len(described["partitions"])), 0)}
        batches.read = begin if done is None else done.offsets
        seen = spark.sparkContext.accumulator(Counter(), SeenParam())
        spark.streams.addListener(batches)
        if port >= 0:
            ProcessCollector(registry=registry)
            spark.streams.addListener(BatchMetrics(registry, QUERY_NAME))
            registry.register(SeenMetrics(lambda: seen.value))
            lag = UnreadWatch(BROKERS_LOG, client_config, lambda: batches.read)
            registry.register(stack.enter_context(lag))
        _watch(spark, stopping, settings, len(described["partitions"]), seen, health, batches, say)
        say("stopped")


def _session_defaults(settings: ObserveSettings) -> dict[str, str]:
    return {
        "spark.app.name": QUERY_NAME,
        "spark.sql.shuffle.partitions": str(settings.observe_state_partitions),
        USE_CONSUMER: "true",
        # Commits that nothing has followed are told in time also if nothing else comes.
        "spark.sql.streaming.noDataMicroBatches.enabled": "true",
        **daemon_defaults(),
    }


def _await_topic(
    settings: ObserveSettings,
    client_config: Mapping[str, Any],
    stopping: StopEvent,
    health: Health,
    say: Callable[[str], None],
) -> dict[str, Any] | None:
    """Return what Kafka tells of the brokers' topic once it is there; None when asked to stop.

    Brokers make it for the first group that they have.
    """
    is_said = False
    while True:
        try:
            with admin_client(client_config) as admin:
                (described,) = admin.describe_topics([BROKERS_LOG])
        except UnreachableError as error:
            raise ObserveError(f"Kafka at {settings.bootstrap_servers}: {error}") from None
        error_type = for_code(described["error_code"])
        if error_type is NoError:
            return dict(described)
        if error_type is not UnknownTopicOrPartitionError:
            raise ObserveError(
                f"topic {BROKERS_LOG} cannot be read: {error_type.__name__}. Grant Read on it; "
                "docs/security.md lists all rights"
            )
        if not is_said:
            say("waiting for the first group: the brokers have no topic of groups yet")
            is_said = True
        health.does(Activity.WAITING_FOR_KAFKA)
        if stopping.wait(_WAIT_S):
            return None


def _watch(
    spark: SparkSession,
    stopping: StopEvent,
    settings: ObserveSettings,
    partitions: int,
    seen: Accumulator[Seen],
    health: Health,
    batches: BatchWatch,
    say: Callable[[str], None],
) -> None:
    batches.restart()
    function = ObserveFunction(
        commits_interval_ms=settings.observe_commits_interval_ms,
        topics=settings.output_topics,
        largest=settings.group.max_record_bytes,
        names=TopicNames(settings.bootstrap_servers, settings.kafka),
        count=seen.add,
    )
    query = start_query(spark, settings, partitions, function)
    say(f"watching the groups at {settings.bootstrap_servers}")
    missed = Missed()
    while query.isActive and not stopping.wait(_LOOK_S):
        if what := missed.look(seen.value, time.monotonic()):
            _log.warning("the brokers have records of which nothing is told: %s", what)
        # A first batch may have far to go.
        health.does(Activity.OBSERVING, math.inf if batches.groups is None else _HANGS_MS)
    health.does(Activity.STOPPING)
    # Even in the middle of a batch, because it runs again at the next start.
    query.stop()
    if stopping.is_set():
        return
    error = query.exception()
    if error is None:
        raise ObserveError("the query was ended from outside")
    _log.error("%s", with_stack(error))
    raise ObserveError(f"the query failed: {first_line(error)}")
