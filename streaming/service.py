"""The long-lived job: everything around the query, from the first check to the clean end."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from prometheus_client import CollectorRegistry, ProcessCollector

from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.identity import check_topics, open_checkpoint
from group_coordinator.checkpoints.offset_log import newest_committed
from group_coordinator.checkpoints.places import offsets_at
from group_coordinator.checkpoints.topics import read_topic_ids
from group_coordinator.jobs.batch_metrics import BatchMetrics
from group_coordinator.jobs.batches import BatchWatch
from group_coordinator.jobs.endpoint import serving
from group_coordinator.jobs.health import Health
from group_coordinator.jobs.job import failing_as, spark_until_stopped
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.session import start_java
from group_coordinator.jobs.unread import UnreadWatch
from group_coordinator.streaming.corrections import Corrections
from group_coordinator.streaming.counts import Counts, CountsParam
from group_coordinator.streaming.daemon import session_defaults, why_not_short
from group_coordinator.streaming.errors import CoordinatorError
from group_coordinator.streaming.function import FunctionArguments
from group_coordinator.streaming.leadership import Leadership
from group_coordinator.streaming.lifeline import Lifeline
from group_coordinator.streaming.metrics import (
    CheckpointMetrics,
    DecisionMetrics,
    GroupMetrics,
    JobMetrics,
    Vitals,
)
from group_coordinator.streaming.probes import Probes
from group_coordinator.streaming.queries import Queries
from group_coordinator.streaming.query import QUERY_NAME, start_query
from group_coordinator.streaming.supervision import Supervision
from group_coordinator.streaming.ticks import TickReader
from group_coordinator.streaming.topic_specs import prepare_topics
from group_coordinator.streaming.topic_watch import TopicWatch
from group_coordinator.streaming.warmth import Warmth, loading
from group_coordinator.streaming.watching.watcher import TopicWatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import Accumulator
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.checkpoints.ledger import Notes
    from group_coordinator.coordinator_state.step import StepResult
    from group_coordinator.streaming.settings import CoordinatorSettings


def run_coordinator(
    settings: CoordinatorSettings, say: Callable[[str], None], *, progress: bool = False
) -> None:
    """Run the coordinator until SIGTERM or SIGINT; then finish the running batch and return.

    `say` is given a line for each thing a person waits for. Must be called in the main thread. Raises
    `TopicError`, `JarError`, `CheckpointError` or `SettingsError` if it cannot start, and
    `CoordinatorError` if the query ends without being asked to.
    """
    with failing_as(CoordinatorError, settings.bootstrap_servers):
        _run(settings, say, progress=progress)


def _run(settings: CoordinatorSettings, say: Callable[[str], None], *, progress: bool) -> None:
    client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
    registry = CollectorRegistry()
    batches = BatchWatch(QUERY_NAME)
    vitals = Vitals(batches, Health(batches, settings.stall_ms), JobMetrics(registry), Counts())
    with ExitStack() as stack:
        # First of all: if somebody else has the port, nobody has to wait for Kafka and Spark to be told.
        stack.enter_context(
            serving(settings.metrics_host, settings.metrics_port, registry, vitals.health, say)
        )
        # Not before: a start that cannot be would wait for it.
        defaults = session_defaults(settings)
        start_java(settings, settings.checkpoint, defaults)
        say(f"connecting to Kafka at {settings.bootstrap_servers}")
        partitions = prepare_topics(settings, client_config)
        say(f"topics are ready at {settings.bootstrap_servers}")
        fewest = partitions[settings.topics_responses]
        if fewest < settings.responses_partitions:
            say(
                f"topic {settings.topics_responses} has {fewest} partitions, fewer than "
                f"responses.partitions = {settings.responses_partitions}: run.md says how to add some"
            )

        # Spark takes longer to start than somebody's tick takes to come. All of this needs no Spark.
        ticks = stack.enter_context(TickReader(settings.topics_clock, client_config))
        if settings.metrics_port >= 0:
            ProcessCollector(registry=registry)
            registry.register(stack.enter_context(GroupMetrics(settings.topics_groups, client_config)))
            lag = UnreadWatch(settings.topics_requests, client_config, lambda: batches.read)
            registry.register(stack.enter_context(lag))
            registry.register(stack.enter_context(CheckpointMetrics(settings.checkpoint)))
        spark, stopping = stack.enter_context(
            spark_until_stopped(
                settings, say, progress=progress, storage=settings.checkpoint, defaults=defaults
            )
        )
        stack.enter_context(loading(spark, settings, partitions))
        why_not = why_not_short(spark.sparkContext.getConf())
        vitals.metrics.short_worker.set(why_not is None)
        if why_not is not None:
            say(f"groups take pyspark's own Python worker, which holds a tenth as many: {why_not}")
        spark.streams.addListener(batches)
        counts = spark.sparkContext.accumulator(vitals.counts, CountsParam())
        if settings.metrics_port >= 0:
            registry.register(DecisionMetrics(lambda: counts.value))
            spark.streams.addListener(BatchMetrics(registry, QUERY_NAME))

        lifeline = Lifeline(spark, settings.alive_port, client_config["bootstrap_servers"][0])
        stack.enter_context(lifeline)
        leadership = Leadership(
            settings,
            f"{socket.gethostname()}:{os.getpid()}",
            vitals,
            spark.sparkContext.statusTracker().getActiveJobsIds,
            Warmth(spark, settings, partitions, say),
            lifeline.address,
            say,
            stopping,
        )
        leadership.await_turn(ticks)
        ticks.close()
        if settings.standby:
            # Somebody may have added partitions while this coordinator stood by.
            partitions = prepare_topics(settings, client_config)
        if not stopping.is_set():
            _coordinate(settings, client_config, partitions, spark, counts, leadership, vitals, say)
    say("stopped")


def _coordinate(
    settings: CoordinatorSettings,
    client_config: dict[str, Any],
    partitions: dict[str, int],
    spark: SparkSession,
    counts: Accumulator[Counts],
    leadership: Leadership,
    vitals: Vitals,
    say: Callable[[str], None],
) -> None:
    """Open the checkpoint, and run queries from it until asked to stop."""
    read = (settings.topics_requests, settings.topics_clock)
    topic_ids = read_topic_ids(client_config, read)
    secret = open_checkpoint(
        spark,
        settings.checkpoint,
        request_topic=settings.topics_requests,
        clock_topic=settings.topics_clock,
        state_partitions=settings.state_partitions,
        secret=settings.member_id_secret,
        topic_ids=topic_ids,
    )
    files = CheckpointFiles(spark, settings.checkpoint)
    done = newest_committed(files)
    if done is not None:
        vitals.batches.read = done.offsets
    else:
        # As Spark does it. The first batch may never end, and its requests are unread until it does.
        begin = offsets_at(client_config, settings.topics_requests, settings.starting_offsets)
        vitals.batches.read = {settings.topics_requests: begin}

    def start(notes: Notes, catches_up: bool) -> StreamingQuery:  # noqa: FBT001 - as it is called
        arguments = FunctionArguments.of(settings, secret, partitions, notes)
        # On an executor `CountsParam` takes a call's result as well.
        count = cast("Callable[[StepResult], None]", counts.add)
        return start_query(spark, settings, arguments, count, catches_up=catches_up)

    def check() -> None:
        check_topics(settings.checkpoint, topic_ids, read_topic_ids(client_config, read))

    probes = Probes.of(settings, partitions[settings.topics_requests], client_config)
    compacted = (settings.topics_groups, settings.topics_offsets)
    largest, is_active = settings.group.max_record_bytes, leadership.is_active
    corrections = Corrections(files, compacted, client_config, largest, is_active)
    watcher = TopicWatcher(settings, client_config, vitals.metrics.topics, is_active)
    with TopicWatch(check) as topics, probes, watcher, corrections:
        queries = Queries(
            settings, files, start, vitals, topics, probes, corrections, leadership.stopping, say
        )
        Supervision(settings, spark, leadership, vitals.health, queries, say).run()
