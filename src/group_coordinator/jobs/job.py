"""The common part of the long-lived jobs: how they are told to stop, and the errors that end them."""

from __future__ import annotations

import logging
import signal
from contextlib import ExitStack, contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from group_coordinator.jobs.java_errors import first_line
from group_coordinator.jobs.session import create_session
from group_coordinator.jobs.signals import StopEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from group_coordinator.jobs.settings import JobSettings

_log = logging.getLogger(__name__)
_JVM_IS_GONE = (Py4JError, ConnectionError)
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.StateStore"


@contextmanager
def failing_as(job_error: type[Exception], bootstrap_servers: str) -> Iterator[None]:
    """Turn exceptions of Kafka's clients, Spark and its JVM into a `job_error` of one line."""
    try:
        yield
    except KafkaError as error:
        raise job_error(f"Kafka at {bootstrap_servers}: {error}") from error
    except (PySparkException, Py4JJavaError) as error:
        _log.error("%s", error)
        raise job_error(f"Spark: {first_line(error)}") from error
    except _JVM_IS_GONE as error:
        raise job_error("Spark's Java process has ended: start again, to go on from here") from error


@contextmanager
def spark_until_stopped(
    settings: JobSettings,
    say: Callable[[str], None],
    *,
    progress: bool,
    storage: str,
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[tuple[SparkSession, StopEvent]]:
    """A session for as long as the context is open, and what SIGTERM and SIGINT set meanwhile.

    Must be entered in the main thread. `progress`, `storage`, `defaults` and errors: as of `create_session`.
    """
    say("starting Spark, which takes ten seconds or more")
    spark = create_session(settings, storage, progress=progress, defaults=defaults)
    with ExitStack() as stack:
        stack.callback(_stop, spark)
        stopping = StopEvent()
        for number in (signal.SIGTERM, signal.SIGINT):
            # After the session: pyspark installs a handler of its own that cancels the running jobs.
            stack.callback(signal.signal, number, signal.signal(number, lambda *_: stopping.set()))
        say(f"Spark {spark.version} is up")
        yield spark, stopping


def _stop(spark: SparkSession) -> None:
    # One that is gone needs no stop, and why it is gone is being told.
    with suppress(*_JVM_IS_GONE):
        java: Any = spark._jvm  # noqa: SLF001 - as pyspark's
        log4j = java.org.apache.logging.log4j
        # Its thread may find Spark gone, and would log a stack. To stop it first may take five minutes.
        log4j.core.config.Configurator.setLevel(_STATE_STORE, log4j.Level.ERROR)
        spark.stop()
