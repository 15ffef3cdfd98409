"""The warmth of a standby: it runs the coordinator's query, about nothing, before it is its turn.

A coordinator that does not stand by has no time for that. It loads what it can while it waits for others
(`loading`).

Most of what a first batch takes is taken once. Java loads and compiles classes, Kafka's consumers connect,
the Python daemon and its workers start and import. So a standby runs the query that it will run, but on
ticks. Every other tick stands for a request of a group that does not exist. The query writes to a checkpoint
that is thrown away, and to no topic.
"""

from __future__ import annotations

import json
import tempfile
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from group_coordinator.jobs.java_errors import first_line
from group_coordinator.jobs.session import is_one_process
from group_coordinator.streaming.function import FunctionArguments, StatefulFunction
from group_coordinator.streaming.query import per_group, read_topics, requests_of, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.coordinator_state.step import StepResult
    from group_coordinator.streaming.settings import CoordinatorSettings

_ROUNDS = 3
"""After so many a query starts as quickly as it ever does. The second is the first with a checkpoint."""
_AGAIN_S = 20
"""Spark ends a Python worker that it has not needed for a minute."""
_SAME_CHECKPOINT = 10
"""Rounds with one checkpoint. Spark warns of a state that has had many versions and no snapshot."""
_ROUND_S = 120
_TICKS = 4
"""So many ticks there are in the first round, at most."""
_KEY = b"warm-up"
_REQUEST = {
    "api": "join_group",
    "api_version": 5,
    "request_id": "warm-up",
    "client_id": "warm-up",
    "group_id": _KEY.decode(),
    "group_instance_id": "warm-up",
    "session_timeout_ms": 60_000,
    "rebalance_timeout_ms": 60_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": "AAEAAAABAAZvcmRlcnMAAAAA"}],
}


_LOADED_S = 10
"""The end of a process waits no longer for each of the two that load."""
_WORKERS = 2
"""A task of the stateful operator has two, one after the other."""


@contextmanager
def loading(
    spark: SparkSession, settings: CoordinatorSettings, partitions: Mapping[str, int]
) -> Iterator[None]:
    """Have Spark load what a first query needs, in threads, while Kafka is asked and the checkpoint read.

    Its first Python workers start and import. Java loads the classes that make a query of its description.
    The end of the context waits for that, because pyspark cannot work in a thread while Spark is stopped.
    """

    def import_all(numbers: Iterable[int]) -> Iterable[int]:
        import group_coordinator.streaming.function  # noqa: F401, PLC0415 - in the worker

        yield from numbers

    def start_workers() -> None:
        # Not by a query, for which Java would have to load more first.
        spark.sparkContext.range(0, _WORKERS, numSlices=_WORKERS).mapPartitions(import_all).collect()

    def describe() -> None:
        _about_nothing(spark, settings, partitions, 0)

    def run(work: Callable[[], object]) -> None:
        # If that does not work the first batch does not, and tells why.
        with suppress(PySparkException, Py4JError, ConnectionError):
            work()

    works = (describe, start_workers)
    threads = [threading.Thread(target=run, args=(it,), name=it.__name__, daemon=True) for it in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(_LOADED_S)


class Warmth:
    """Runs such queries in a thread from `begin` until `end`; `is_warm` tells whether it has run enough.

    `partitions`: how many each topic has. An error is said, and the next round tries again. With executors
    elsewhere it runs none, because they could not reach the checkpoint.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: CoordinatorSettings,
        partitions: Mapping[str, int],
        say: Callable[[str], None],
    ) -> None:
        self._spark, self._settings, self._partitions, self._say = spark, settings, partitions, say
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._query: StreamingQuery | None = None
        self._rounds = 0
        self._failure = ""

    @property
    def is_warm(self) -> bool:
        """Whether a query would start as quickly as it can."""
        return self._rounds >= _ROUNDS

    def begin(self, next_tick: Callable[[], int]) -> None:
        """Begin to become warm. `next_tick` returns the offset of the tick that comes next."""
        if self._thread is None and is_one_process(str(self._spark.sparkContext.master)):
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, args=(next_tick,), name="warmth", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """End the round that is running, if one is, because it is this process's turn."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            self._interrupt()
            thread.join()

    def _run(self, next_tick: Callable[[], int]) -> None:
        while not self._stopping.is_set():
            try:
                with tempfile.TemporaryDirectory(
                    prefix="group-coordinator-", ignore_cleanup_errors=True
                ) as checkpoint:
                    self._run_from(checkpoint, max(0, next_tick() - _TICKS))
            except (PySparkException, Py4JError, OSError) as error:
                if self._stopping.is_set() or not self._tell(error):
                    return
                self._stopping.wait(_AGAIN_S)

    def _run_from(self, checkpoint: str, tick: int) -> None:
        # Another tick has to come before there is something to read.
        soon_s = 2 * self._settings.clock_interval_ms / 1000
        for _ in range(_SAME_CHECKPOINT):
            self._round(checkpoint, tick)
            if self._stopping.wait(_AGAIN_S if self.is_warm else soon_s):
                return

    def _round(self, checkpoint: str, tick: int) -> None:
        nothing = _about_nothing(self._spark, self._settings, self._partitions, tick)
        query = writing(nothing, self._settings, "warm-up", checkpoint)
        self._query = query.trigger(availableNow=True).start()
        if self._stopping.is_set():
            self._interrupt()
        if not self._query.awaitTermination(_ROUND_S):
            self._query.stop()
            raise TimeoutError(f"a query has not ended within {_ROUND_S} s")
        if self._stopping.is_set():
            return
        self._rounds += 1
        if self._rounds == _ROUNDS:
            self._say("standing by is warm: the query has run about nothing")

    def _interrupt(self) -> None:
        query = self._query
        if query is not None:
            query.stop()

    def _tell(self, error: Exception) -> bool:
        """Say why it does not become warm, once; return whether another round may be better."""
        if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
            # The JVM has died, of which another thread learns as well.
            return False
        reason = str(error) if isinstance(error, OSError) else first_line(error)
        if reason != self._failure:
            self._failure = reason
            self._say(f"standing by is not warm: {reason}")
        return True


def _about_nothing(
    spark: SparkSession, settings: CoordinatorSettings, partitions: Mapping[str, int], tick: int
) -> DataFrame:
    """The decisions about ticks from that one on, of which none is left."""
    clock = settings.topics_clock
    ticks = read_topics(
        spark, settings, clock, most=settings.max_batch_records, begin=json.dumps({clock: {"0": tick}})
    )
    is_request = F.col("offset") % 2 == 0

    def or_else(name: str, value: object) -> Column:
        return F.when(is_request, F.lit(value)).otherwise(F.col(name))

    log = ticks.withColumns(
        {
            "topic": or_else("topic", settings.topics_requests),
            "key": or_else("key", _KEY),
            "value": or_else("value", msgspec.json.encode(_REQUEST)),
        }
    )
    # Nobody is to read of these decisions, neither in topics nor in the log.
    quiet = msgspec.structs.replace(settings, log_level="error")
    arguments = FunctionArguments.of(quiet, b"warm-up", partitions)
    rows = per_group(requests_of(log, settings), StatefulFunction(arguments, _ignore))
    return rows.where(F.col("topic") == "")


def _ignore(_: StepResult) -> None:
    """Count no decision: none was made."""
