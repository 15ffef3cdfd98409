"""The long-lived job: everything around the query, from the first check to the clean end."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kafka.errors import (
    AuthorizationError,
    KafkaError,
    SaslAuthenticationFailedError,
)
from prometheus_client import CollectorRegistry, ProcessCollector
from pyspark.errors import PySparkException

from checkpoints.errors import first_line
from checkpoints.files import CheckpointFiles
from checkpoints.identity import open_checkpoint
from checkpoints.outages import note_outage
from checkpoints.topics import read_topic_ids
from streaming.batches import BatchWatch
from streaming.clock import Clock
from streaming.counts import CountsParam
from streaming.function import FunctionArguments
from streaming.health import Activity, Health
from streaming.job import failing_as, spark_until_stopped
from streaming.kafka_config import python_client_config
from streaming.metrics import BatchMetrics, DecisionMetrics, GroupMetrics, JobMetrics, serve
from streaming.query import QUERY_NAME, start_query
from streaming.stopping import stop_after_batch
from streaming.ticks import TickReader
from streaming.topics import prepare_topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import Accumulator
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.signals import StopEvent
    from streaming.settings import Settings

__all__ = ["CoordinatorError", "run_coordinator"]

_log = logging.getLogger(__name__)

# A batch that has not ended by then is stuck; supervisors send SIGKILL after 30 s or so.
_STOP_TIMEOUT_S = 20
_LOOK_S = 0.2
_CONFLICT = "[CONCURRENT_STREAM_LOG_UPDATE]"
"""Spark's error condition for a batch that somebody else has planned, or committed."""
_MOST_CONFLICTS = 3
"""More, and no batch between them, are no coordinator's that will soon know better."""
_ROOM = 0.1
"""Which part of `max.groups` has to be free before groups are created again."""


class CoordinatorError(Exception):
    """The query did not start, or ended by itself; the message is one line. Starting again goes on there."""


def run_coordinator(settings: Settings, say: Callable[[str], None], *, progress: bool = False) -> None:
    """Run the coordinator until SIGTERM or SIGINT; then finish the running batch and return.

    `say` is given a line for each thing a person waits for. Must be called in the main thread. Raises
    `TopicError`, `JarError`, `CheckpointError` or `SettingsError` if it cannot start, and
    `CoordinatorError` if the query ends without being asked to.
    """
    with failing_as(CoordinatorError, settings.bootstrap_servers):
        _run(settings, say, progress=progress)


def _run(settings: Settings, say: Callable[[str], None], *, progress: bool) -> None:
    client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
    partitions = prepare_topics(settings, client_config)
    say(f"topics are ready at {settings.bootstrap_servers}")

    with ExitStack() as stack:
        # Spark takes longer to start than somebody's tick takes to come.
        ticks = stack.enter_context(TickReader(settings.topics_clock, client_config))
        spark, stopping = stack.enter_context(spark_until_stopped(settings, say, progress=progress))
        counts = spark.sparkContext.accumulator(Counter(), CountsParam())
        registry = CollectorRegistry()
        job = _Job(settings, client_config, partitions, spark, counts, JobMetrics(registry), say, stopping)
        if settings.metrics_port >= 0:
            ProcessCollector(registry=registry)
            registry.register(DecisionMetrics(lambda: counts.value))
            registry.register(stack.enter_context(GroupMetrics(settings.topics_groups, client_config)))
            spark.streams.addListener(BatchMetrics(registry, QUERY_NAME))
            port, close = serve(settings.metrics_port, registry, job.health)
            stack.callback(close)
            say(f"metrics are at http://localhost:{port}/metrics")

        job.await_turn(ticks)
        ticks.close()
        job.run()
    say("stopped")


class _Job:
    """One query after the other: a new one begins when the clock has stopped, and with it an outage."""

    def __init__(
        self,
        settings: Settings,
        client_config: dict[str, Any],
        partitions: dict[str, int],
        spark: SparkSession,
        counts: Accumulator[Counter[tuple[str, str, str]]],
        metrics: JobMetrics,
        say: Callable[[str], None],
        stopping: StopEvent,
    ) -> None:
        self._settings = settings
        self._client_config = client_config
        self._partitions = partitions
        self._spark = spark
        self._counts = counts
        self._metrics = metrics
        self._say = say
        self._stopping = stopping
        self._coordinator = f"{socket.gethostname()}:{os.getpid()}"
        self._files = CheckpointFiles(spark, settings.checkpoint)
        self._look_from: int | None = None
        """From which tick on somebody else may have begun."""
        self._is_closed: bool | None = None
        self._patience_ms = settings.stall_ms
        self._conflicts = 0
        """How often the query has ended by one, and no batch has ended since."""
        self._batches = BatchWatch(QUERY_NAME)
        spark.streams.addListener(self._batches)
        self.health = Health(self._batches, settings.stall_ms)

    def await_turn(self, ticks: TickReader) -> None:
        """Return when no other coordinator of these topics runs, or when asked to stop.

        Raises `CoordinatorError` if one runs and this one is not to stand by.
        """
        settings = self._settings
        quiet_s = (settings.clock_max_gap_ms + settings.clock_interval_ms) / 1000
        standing_by_for = ""
        while not self._stopping.is_set():
            ticks.poll(_LOOK_S)
            rival = ticks.running(quiet_s)
            if rival is None or rival.coordinator == self._coordinator:
                if standing_by_for:
                    self.health.does(Activity.STARTING)
                    self._metrics.standby.set(0)
                    self._say(f"{standing_by_for} has ended: taking over")
                return
            if ticks.is_live and not settings.standby:
                raise CoordinatorError(
                    f"another coordinator of these topics is running, {rival.coordinator}: stop it first, or "
                    "start this one with --standby, to go on when that one ends"
                )
            if ticks.is_live and standing_by_for != rival.coordinator:
                standing_by_for = rival.coordinator
                self._metrics.standby.set(1)
                self._say(f"standing by: {rival.coordinator} is the coordinator of these topics")
            if standing_by_for:
                # Without its JVM it could not take over.
                self._spark.sparkContext.statusTracker().getActiveJobsIds()
                self.health.does(Activity.STANDING_BY)

    def run(self) -> None:
        """Coordinate until asked to stop."""
        if self._stopping.is_set():
            return
        settings = self._settings
        secret = open_checkpoint(
            self._spark,
            settings.checkpoint,
            request_topic=settings.topics_requests,
            clock_topic=settings.topics_clock,
            state_partitions=settings.state_partitions,
            secret=settings.member_id_secret,
            topic_ids=read_topic_ids(self._client_config, (settings.topics_requests, settings.topics_clock)),
        )
        self._run_once(secret)
        while not self._stopping.is_set():
            try:
                with TickReader(settings.topics_clock, self._client_config, self._look_from) as ticks:
                    self.await_turn(ticks)
                if not self._stopping.is_set():
                    self._run_once(secret)
            except (AuthorizationError, SaslAuthenticationFailedError):
                raise
            except KafkaError as error:
                # It was there before, so it will be there again.
                self._say(f"waiting for Kafka at {settings.bootstrap_servers}: {error}")
                self.health.does(Activity.WAITING_FOR_KAFKA)
                self._stopping.wait(_LOOK_S)

    def _run_once(self, secret: bytes) -> None:
        """Run the query until asked to stop, or until it has to begin anew."""
        settings = self._settings
        self.health.does(Activity.STARTING)
        with Clock.of(settings, self._client_config, self._coordinator, self._keeps_up) as clock:
            self._batches.restart()
            outages = note_outage(self._files, self._client_config, clock.started_ms, closed=self._is_closed)
            self._is_closed = bool(outages) and outages[-1].closed
            self._metrics.closed.set(self._is_closed)
            if outages and outages[-1].end_ms == clock.started_ms:
                self._metrics.outage(outages[-1])
            arguments = FunctionArguments.of(settings, secret, self._partitions, outages)
            try:
                query = start_query(self._spark, settings, arguments, self._counts.add)
            except PySparkException as error:
                raise CoordinatorError(f"the query cannot start: {first_line(error)}") from error
            self._say("the coordinator is running")
            reason = self._watch(query, clock)
            if reason is None:
                self._say("stopping after the running batch")
                self.health.does(Activity.STOPPING)
                stop_after_batch(self._spark, query, _STOP_TIMEOUT_S)
            else:
                # At once: another coordinator may be running. The batch runs again, with the same answers.
                self._say(f"{reason}: the query begins anew")
                self.health.does(Activity.BEGINNING_ANEW)
                clock.stop()
                self._look_from = clock.look_from
                # Takes a minute while Kafka is away.
                query.stop()
                self.health.does(Activity.BEGINNING_ANEW)

    def _watch(self, query: StreamingQuery, clock: Clock) -> str | None:
        """Return why the query has to begin anew, or None when asked to stop."""
        while not self._stopping.wait(_LOOK_S):
            self.health.does(Activity.COORDINATING, self._patience_ms)
            if self._batches.groups is not None:
                self._patience_ms = self._settings.stall_ms
                self._conflicts = 0
            if clock.failure is not None:
                if self._batches.groups is None:
                    # Given more time again and again, the longest of first batches ends some day.
                    self._patience_ms *= 2
                return str(clock.failure)
            if self._must_close() is not self._is_closed:
                self._is_closed = not self._is_closed
                what = "no new ones are created" if self._is_closed else "new ones are created again"
                return f"there are {self._batches.groups} groups, so {what}"
            # The JVM is asked last, since it may stand still.
            if not query.isActive:
                return self._why_ended(query)
        return None

    def _why_ended(self, query: StreamingQuery) -> str:
        """Return why a query that has ended is to begin anew. Raises `CoordinatorError` if it is not to."""
        error = query.exception()
        if error is None:
            raise CoordinatorError("the query was ended from outside")
        if _CONFLICT in str(error) and self._conflicts < _MOST_CONFLICTS:
            # One that was paused has ended its batch when it woke up, before it could know of this one. Its
            # answers were the same. Which of the two goes on is told by the clock, not by who was first.
            self._conflicts += 1
            return "another coordinator has written to the checkpoint"
        _log.error("%s", error)
        raise CoordinatorError(f"the query failed: {first_line(error)}")

    def _keeps_up(self) -> bool:
        """Whether batches end."""
        return self._batches.silent_ms <= self._patience_ms

    def _must_close(self) -> bool:
        """Whether no groups are to be created: until there is some room, or it would change all the time."""
        groups, most = self._batches.groups, self._settings.max_groups
        if groups is None:
            return bool(self._is_closed)
        return groups > most * (1 - _ROOM) if self._is_closed else groups > most
