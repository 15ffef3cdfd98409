"""The long-lived job: everything around the query, from the first check to the clean end."""

from __future__ import annotations

import logging
import signal
import threading
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka.errors import KafkaError
from prometheus_client import CollectorRegistry
from pyspark.errors import PySparkException, StreamingQueryException

from checkpoints.identity import open_checkpoint
from streaming.clock import Clock
from streaming.counts import CountsParam
from streaming.function import FunctionArguments
from streaming.kafka_config import python_client_config
from streaming.metrics import BatchMetrics, DecisionMetrics, GroupMetrics, serve_metrics
from streaming.query import QUERY_NAME, start_query
from streaming.session import create_session
from streaming.stopping import stop_after_batch
from streaming.topics import prepare_topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.settings import Settings

__all__ = ["CoordinatorError", "run_coordinator"]

_log = logging.getLogger(__name__)

# A batch that has not ended by then is stuck; supervisors send SIGKILL after 30 s or so.
_STOP_TIMEOUT_S = 20


class CoordinatorError(Exception):
    """The query did not start, or ended by itself; the message is one line. Starting again goes on there."""


def run_coordinator(settings: Settings, say: Callable[[str], None], *, progress: bool = False) -> None:
    """Run the coordinator until SIGTERM or SIGINT; then finish the running batch and return.

    `say` is given a line for each thing a person waits for. Must be called in the main thread. Raises
    `TopicError`, `JarError`, `CheckpointError` or `SettingsError` if it cannot start, and
    `CoordinatorError` if the query ends without being asked to.
    """
    try:
        _run(settings, say, progress=progress)
    except KafkaError as error:
        raise CoordinatorError(f"Kafka at {settings.bootstrap_servers}: {error}") from error


def _run(settings: Settings, say: Callable[[str], None], *, progress: bool) -> None:
    client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
    partitions = prepare_topics(settings, client_config)
    say(f"topics are ready at {settings.bootstrap_servers}")

    with ExitStack() as stack:
        spark = create_session(settings, progress=progress)
        stack.callback(spark.stop)
        stopping = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            # After the session: pyspark installs a handler of its own that cancels the running jobs.
            stack.callback(signal.signal, number, signal.signal(number, lambda *_: stopping.set()))
        say(f"Spark {spark.version} is up")
        secret = open_checkpoint(
            spark,
            settings.checkpoint,
            request_topic=settings.topics_requests,
            clock_topic=settings.topics_clock,
            state_partitions=settings.state_partitions,
            secret=settings.member_id_secret,
        )

        counts = spark.sparkContext.accumulator(Counter(), CountsParam())
        if settings.metrics_port >= 0:
            registry = CollectorRegistry()
            registry.register(DecisionMetrics(lambda: counts.value))
            registry.register(stack.enter_context(GroupMetrics(settings.topics_groups, client_config)))
            listener = BatchMetrics(registry, QUERY_NAME)
            spark.streams.addListener(listener)
            port, close = serve_metrics(settings.metrics_port, registry)
            stack.callback(close)
            say(f"metrics are at http://localhost:{port}/metrics")

        stack.enter_context(Clock(settings.topics_clock, settings.clock_interval_ms, client_config))
        arguments = FunctionArguments.of(settings, secret, partitions)
        try:
            query = start_query(spark, settings, arguments, counts.add)
        except PySparkException as error:
            raise CoordinatorError(f"the query cannot start: {_first_line(error)}") from error
        say("the coordinator is running")
        try:
            while not stopping.is_set():
                if query.awaitTermination(1):
                    raise CoordinatorError("the query was ended from outside")
        except StreamingQueryException as error:
            _log.error("%s", error)
            raise CoordinatorError(f"the query failed: {_first_line(error)}") from error
        say("stopping after the running batch")
        stop_after_batch(spark, query, _STOP_TIMEOUT_S)
    say("stopped")


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0]
