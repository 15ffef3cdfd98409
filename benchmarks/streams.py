"""The streams that are compared. Each runs in processes of its own, whose CPU time is theirs alone.

* `pass-through`: the coordinator's source, sink and session, without clock, state and Python.
* `no-op`: its whole query, clock and timers among it, but with a function that knows no rules: it answers
  each request with that request, and writes a state of the same size each time.
* `stock no-op`: the same with pyspark's own worker, spoken to over TCP, as Spark does by itself.
* `rows no-op` and `frames no-op`: the same function as a processor of `transformWithState`, which is given
  rows, and of `transformWithStateInPandas`. Both have pyspark's own worker.
* `coordinator`: `group-coordinator run`, as users do.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import msgspec
import pandas as pd
import psutil
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from benchmarks.load import Load
from benchmarks.members import LONG_MS
from group_coordinator.jobs.kafka_config import kafka_options, python_client_config
from group_coordinator.jobs.session import create_session
from group_coordinator.streaming.clock import Clock
from group_coordinator.streaming.daemon import session_defaults
from group_coordinator.streaming.function import INPUT_COLUMNS, StatefulFunction
from group_coordinator.streaming.group_function import OUTPUT_SCHEMA, STATE_SCHEMA, Row
from group_coordinator.streaming.query import per_group, read_log, read_topics
from group_coordinator.streaming.schedule import Pace
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.topic_specs import prepare_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

PASS_THROUGH, STOCK_NO_OP, NO_OP, COORDINATOR = "pass-through", "stock no-op", "no-op", "coordinator"
ROWS_NO_OP, FRAMES_NO_OP = "rows no-op", "frames no-op"
_STOCK = {
    "spark.python.daemon.module": "pyspark.daemon",
    "spark.python.unix.domain.socket.enabled": "false",
}
_READY = "the coordinator is running"
_METRICS = "metrics are at "
_START_S = 1_800
"""A backlog takes its time."""
_STOP_S = 60
_LOOK_S = 1
_TOPICS = ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
_PARTITION = 0
"""Where answers go to, which the loads ask for."""
_STATE = bytes(400)
"""About what a group of one member takes."""


class Stream:
    """One of them, from its start to `close`. `cores`: those it may use, if not all."""

    def __init__(
        self, kind: str, bootstrap_servers: str, directory: Path, settings: dict[str, Any], cores: list[int]
    ) -> None:
        self.kind = kind
        prefix = directory.name
        self.checkpoint = directory / "checkpoint"
        given: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "create.topics": True,
            "checkpoint": str(self.checkpoint),
            "metrics.port": 0,
            "log.level": "warning",
            "group.initial.rebalance.delay.ms": 0,
            **{f"topics.{name}": f"{prefix}.{name}" for name in _TOPICS},
            **(_STOCK if kind in {STOCK_NO_OP, ROWS_NO_OP, FRAMES_NO_OP} else {}),
            **settings,
        }
        self.topic_settings = {f"topics.{name}": str(given[f"topics.{name}"]) for name in _TOPICS}
        self.topics = list(self.topic_settings.values())
        self.load = Load(bootstrap_servers, given["topics.requests"], given["topics.responses"], _PARTITION)
        if kind == COORDINATOR:
            self._command = [sys.executable, "-m", "group_coordinator", "run"]
            for name, value in given.items():
                self._command += ["--set", f"{name}={_toml(value)}"]
        else:
            # Not as __main__, or the workers would look for the function in their own.
            code = "from benchmarks.streams import main; main()"
            self._command = [sys.executable, "-c", code, kind, msgspec.json.encode(given).decode()]
        self._cores = cores
        self._log_file = directory.parent / f"{prefix}.log"
        self.start()

    def start(self, settings: Mapping[str, object] = MappingProxyType({})) -> None:
        """Start it, again if it was closed, and return when it runs; a coordinator with more `settings`."""
        self._log = self._log_file.open("a")
        more = [part for name, value in settings.items() for part in ("--set", f"{name}={_toml(value)}")]
        self._process = subprocess.Popen(
            [*self._command, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._tree = psutil.Process(self._process.pid)
        if self._cores:
            self._tree.cpu_affinity(self._cores)
        self._await_ready()

    def _await_ready(self) -> None:
        told = threading.Event()
        self._beginnings = 0
        self.said_s: dict[str, float] = {}
        """The time at which it has said each line first, by the machine's monotonic clock."""
        assert self._process.stdout is not None
        lines = self._process.stdout

        def read() -> None:
            for line in lines:
                self._log.write(line)
                self.said_s.setdefault(line.strip(), time.monotonic())
                if line.startswith(_METRICS):
                    self._metrics_url = line.removeprefix(_METRICS).strip()
                if _READY in line:
                    self._beginnings += 1
                    told.set()
            told.set()

        self._reader = threading.Thread(target=read)
        self._reader.start()
        told.wait(_START_S)
        if not self._beginnings:
            self.close()
            raise RuntimeError(f"not up within {_START_S} s:\n{self.log()}")

    def check(self) -> None:
        """Raise `RuntimeError` if it does not run any more, or has begun anew."""
        if self._process.poll() is not None or self._beginnings > 1:
            raise RuntimeError(f"it did not go on as it was:\n{self.log()}")

    def log(self) -> str:
        """What it has said."""
        return self._log_file.read_text()

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far: driver, JVM, Python workers."""
        total = 0.0
        for process in (self._tree, *self._tree.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all its processes (SIGSTOP) for a while."""
        tree = [self._tree, *self._tree.children(recursive=True)]
        try:
            for process in tree:
                # Spark ends a worker that it has not needed for a minute.
                with suppress(psutil.NoSuchProcess):
                    process.suspend()
            yield
        finally:
            for process in tree:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def memory_bytes(self) -> dict[str, int]:
        """Memory that its processes have for themselves, by `driver`, `jvm` and `workers`."""
        found = {"driver": 0, "jvm": 0, "workers": 0}
        for process in (self._tree, *self._tree.children(recursive=True)):
            try:
                of = "driver" if process == self._tree else "jvm" if process.name() == "java" else "workers"
                found[of] += process.memory_full_info().uss
            except psutil.NoSuchProcess:
                continue
        return found

    def metrics(self) -> dict[str, float]:
        """What a coordinator tells Prometheus, without labels: of each name the sum."""
        with urlopen(self._metrics_url) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removeprefix("group_coordinator_")
                found[name] = found.get(name, 0) + sample.value
        return found

    def close(self) -> None:
        """Stop it."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                for process in (*self._tree.children(recursive=True), self._tree):
                    process.kill()
                self._process.wait()
        self._reader.join()
        self._log.close()


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# -- in the process --------------------------------------------------------------------------------------


class NoOp(StatefulFunction):
    """Answers each request with itself, on the topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def parts(
        self, key: tuple[bytes | None], records: Iterable[tuple[Any, ...]], state: GroupState
    ) -> Iterator[list[Row]]:
        """As of the coordinator's."""
        state.update((_STATE,))
        state.setTimeoutTimestamp(max(0, state.getCurrentWatermarkMs()) + LONG_MS)
        group = None if key[0] is None else bytes(key[0])
        yield [(self._topic, group, value, _PARTITION, None) for _, _, _, value in records]


class RowsNoOp(StatefulProcessor):
    """The same for `transformWithState`, whose timers do not take the place of the one before."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._group = handle.getValueState("group", f"{STATE_SCHEMA}, deadline LONG")

    def handleInputRows(  # noqa: N802 - pyspark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Any]:
        self._decide(timerValues)
        for row in rows:
            yield SparkRow(topic=self._topic, key=key[0], value=row.value, partition=_PARTITION, headers=None)

    def _decide(self, times: Any) -> None:
        deadline_ms = max(0, times.getCurrentWatermarkInMs()) + LONG_MS
        before = self._group.get()
        if before is not None:
            self._handle.deleteTimer(before[1])
        self._handle.registerTimer(deadline_ms)
        self._group.update((_STATE, deadline_ms))

    def close(self) -> None:
        """Nothing is to be closed."""


class FramesNoOp(RowsNoOp):
    """The same for `transformWithStateInPandas`."""

    def handleInputRows(  # noqa: N802 - pyspark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        self._decide(timerValues)
        for frame in rows:
            answers = [(self._topic, key[0], value, _PARTITION, None) for value in frame["value"]]
            yield pd.DataFrame(
                answers, columns=["topic", "key", "value", "partition", "headers"], dtype=object
            )


def _pass_on(spark: SparkSession, settings: CoordinatorSettings) -> DataFrame:
    requests = read_topics(spark, settings, settings.topics_requests)
    topic, partition = F.lit(settings.topics_responses), F.lit(_PARTITION)
    return requests.select(topic.alias("topic"), "key", "value", partition.alias("partition"))


def _do_nothing(spark: SparkSession, settings: CoordinatorSettings) -> DataFrame:
    return per_group(read_log(spark, settings), NoOp(settings.topics_responses))


def _process(spark: SparkSession, settings: CoordinatorSettings, kind: str) -> DataFrame:
    groups = read_log(spark, settings).select("key", *INPUT_COLUMNS, "clock").groupBy("key")
    topic = settings.topics_responses
    if kind == ROWS_NO_OP:
        return groups.transformWithState(RowsNoOp(topic), OUTPUT_SCHEMA, "Update", "EventTime")
    return groups.transformWithStateInPandas(FramesNoOp(topic), OUTPUT_SCHEMA, "Update", "EventTime")


def _run(kind: str, given: dict[str, Any]) -> None:
    settings = CoordinatorSettings.load(None, {}, given)
    client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
    prepare_topics(settings, client_config)
    spark = create_session(settings, settings.checkpoint, defaults=session_defaults(settings))
    rows: dict[str, Callable[[SparkSession, CoordinatorSettings], DataFrame]] = {
        PASS_THROUGH: _pass_on,
        ROWS_NO_OP: partial(_process, kind=kind),
        FRAMES_NO_OP: partial(_process, kind=kind),
    }
    writing = (
        rows.get(kind, _do_nothing)(spark, settings)
        .writeStream.format("kafka")
        .outputMode("append" if kind == PASS_THROUGH else "update")
        .option("checkpointLocation", settings.checkpoint)
        .option("kafka.acks", "all")
        .options(**kafka_options(settings))
        .trigger(processingTime=f"{settings.trigger_interval_ms} milliseconds")
    )
    if kind == PASS_THROUGH:
        query = writing.start()
        print(_READY, flush=True)
        query.awaitTermination()
    with Clock(settings.topics_clock, Pace.of(settings), client_config, "benchmark") as clock:
        clock.resume()
        query = writing.start()
        print(_READY, flush=True)
        while not query.awaitTermination(_LOOK_S):
            if clock.failure is not None:
                raise clock.failure


def main() -> None:
    """Run the stream of the kind, with the settings, that the command line says."""
    kind, given = sys.argv[1:]
    _run(kind, msgspec.json.decode(given))
