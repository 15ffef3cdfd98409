"""Round trips through the coordinator, beside those through a stream that only passes records on.

A round trip is the time from the sending of a heartbeat to the arrival of its answer at a reader that
long-polls. Two loads:

* `one at a time`: the next request is sent when the one before is answered. What one lonely member sees.
* `open loop`: requests come on schedule over many groups, answered or not, and the time counts from when a
  request was due. What members see of a busy coordinator.

The pass-through stream has the coordinator's source, sink, session and broker, but no clock, no state and
no Python: what Spark's micro-batches and Kafka cost by themselves. `ratio` is what the coordinator makes of
that, and says more than either figure on a machine that also does other things. Streams run one at a time,
pass-through and coordinator in turn; each figure is the median of the rounds.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from benchmarks.load import Load, Request, call, closed_loop, open_loop
from benchmarks.report import percentile, show, write
from deploy.broker import EmbeddedBroker
from streaming.clock import Clock
from streaming.counts import CountsParam
from streaming.function import FunctionArguments
from streaming.kafka_config import python_client_config
from streaming.query import start_query
from streaming.session import create_session
from streaming.settings import Settings, load_settings
from streaming.stopping import stop_after_batch
from streaming.topics import prepare_topics

STREAMS = ("pass-through", "coordinator")
_PERCENTILES = (50, 99)
_PARTITION = 0


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    warm_up_s: int
    requests: int
    """In the loop of one at a time."""
    groups: int
    per_second: int
    seconds: int
    """Of the open loop."""


def run(plan: Plan, overrides: dict[str, object], file: Path | None) -> dict[str, Any]:
    """Measure, print and write; return the medians by stream, load and percentile."""
    with ExitStack() as stack:
        bench = stack.enter_context(_bench(plan, overrides))
        for stream in STREAMS:
            # For the JVM: the first round would otherwise measure its compiler.
            bench.warm_up(stream, plan.warm_up_s, plan)
        rounds = [
            {stream: bench.measure(stream, plan.warm_up_s / 6, plan) for stream in STREAMS}
            for _ in range(plan.rounds)
        ]
    medians = {
        stream: {
            load: {name: statistics.median(each[stream][load][name] for each in rounds) for name in figures}
            for load, figures in rounds[0][stream].items()
        }
        for stream in STREAMS
    }
    _print(plan, medians)
    write(file, {"plan": plan._asdict(), "settings": overrides, "medians_ms": medians, "rounds_ms": rounds})
    return medians


def _print(plan: Plan, medians: dict[str, Any]) -> None:
    rows = []
    for load in medians["coordinator"]:
        for percent in medians["coordinator"][load]:
            base, ours = (medians[stream][load][percent] for stream in STREAMS)
            rows.append([f"{load} {percent}", f"{base:.0f}", f"{ours:.0f}", f"{ours / base:.2f}"])
    title = f"Heartbeat round trips in ms (medians of {plan.rounds} rounds)"
    show(title, ["load", *STREAMS, "ratio"], rows)


@contextmanager
def _bench(plan: Plan, overrides: dict[str, object]) -> Iterator[Bench]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="group-coordinator-")))
        broker = stack.enter_context(EmbeddedBroker(directory / "kafka"))
        servers = {"bootstrap.servers": broker.bootstrap_servers, "create.topics": True}
        coordinator = load_settings(None, {}, servers | {"checkpoint": str(directory / "c")} | overrides)
        names = ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
        others = {f"topics.{name}": f"pass-through.{name}" for name in names}
        passing = load_settings(None, {}, servers | others | {"checkpoint": str(directory / "p")} | overrides)
        spark = create_session(coordinator)
        stack.callback(spark.stop)
        # Not forked: a fork would share the broker's and the JVM's pipes.
        pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        stack.enter_context(pool)
        yield Bench(spark, {"pass-through": passing, "coordinator": coordinator}, pool, plan.groups)


class Bench:
    """Both streams, started and stopped in turn, and the process that loads them."""

    def __init__(
        self, spark: SparkSession, settings: dict[str, Settings], pool: ProcessPoolExecutor, groups: int
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._pool = pool
        self._groups = groups
        self._members: list[dict[str, Any]] = []
        self._number = 0
        self._client_config = python_client_config(settings["coordinator"].bootstrap_servers, {})
        self._partitions = {
            stream: prepare_topics(each, self._client_config) for stream, each in settings.items()
        }

    def warm_up(self, stream: str, seconds: float, plan: Plan) -> None:
        """Load the stream for so long."""
        with self._running(stream, seconds, plan):
            pass

    def measure(self, stream: str, warm_up_s: float, plan: Plan) -> dict[str, dict[str, float]]:
        """Load the stream in both ways, after a warm-up; percentiles of the round trips in ms, by load."""
        with self._running(stream, warm_up_s, plan) as load:
            one = self._heartbeats(plan.requests, groups=1)
            many = self._heartbeats(plan.seconds * plan.per_second)
            trips = {
                "one at a time": self._pool.submit(closed_loop, load, one).result(),
                f"{plan.per_second}/s": self._pool.submit(open_loop, load, many, plan.per_second).result(),
            }
        return {
            name: {f"p{percent}": percentile(values, percent) for percent in _PERCENTILES}
            for name, values in trips.items()
        }

    @contextmanager
    def _running(self, stream: str, warm_up_s: float, plan: Plan) -> Iterator[Load]:
        settings = self._settings[stream]
        load = Load(
            settings.bootstrap_servers, settings.topics_requests, settings.topics_responses, _PARTITION
        )
        with self._coordinator() if stream == "coordinator" else self._pass_through():
            if not self._members and stream == "coordinator":
                self._form_groups(load)
            warm_up = self._heartbeats(int(warm_up_s * plan.per_second))
            self._pool.submit(open_loop, load, warm_up, plan.per_second).result()
            yield load

    @contextmanager
    def _coordinator(self) -> Iterator[None]:
        settings = self._settings["coordinator"]
        arguments = FunctionArguments.of(settings, b"secret", self._partitions["coordinator"])
        counts = self._spark.sparkContext.accumulator(Counter(), CountsParam())
        with Clock(settings.topics_clock, settings.clock_interval_ms, self._client_config):
            query = start_query(self._spark, settings, arguments, counts.add)
            try:
                yield
            finally:
                stop_after_batch(self._spark, query, 20)

    @contextmanager
    def _pass_through(self) -> Iterator[None]:
        settings = self._settings["pass-through"]
        servers = settings.bootstrap_servers
        query = (
            self._spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", settings.topics_requests)
            .option("startingOffsets", settings.starting_offsets)
            .option("failOnDataLoss", "false")
            .option("kafka.fetch.max.wait.ms", "10")
            .load()
            .select(
                F.lit(settings.topics_responses).alias("topic"),
                "key",
                "value",
                F.lit(_PARTITION).alias("partition"),
            )
            .writeStream.format("kafka")
            .option("checkpointLocation", settings.checkpoint)
            .option("kafka.bootstrap.servers", servers)
            .option("kafka.acks", "all")
            .option("kafka.max.request.size", settings.group.max_record_bytes)
            .trigger(processingTime=f"{settings.trigger_interval_ms} milliseconds")
            .start()
        )
        try:
            yield
        finally:
            # Nothing comes any more, so there is no batch to wait for.
            query.stop()

    def _form_groups(self, load: Load) -> None:
        """One member in each group, which nobody ends while the other stream runs."""
        groups = [f"group-{number}" for number in range(self._groups)]
        join = {
            "session_timeout_ms": self._settings["coordinator"].group.group_max_session_timeout_ms,
            "api_version": 3,  # a member at once, without a second request
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": ""}],
        }
        joins = [self._request("join_group", group, **join) for group in groups]
        joined = [msgspec.json.decode(answer) for answer in self._pool.submit(call, load, joins).result()]
        places = [{name: it[name] for name in ("member_id", "generation_id")} for it in joined]
        protocol = {"protocol_type": "consumer", "protocol_name": "range"}
        syncs = [
            self._request("sync_group", group, **place, **protocol)
            for group, place in zip(groups, places, strict=True)
        ]
        synced = [msgspec.json.decode(answer) for answer in self._pool.submit(call, load, syncs).result()]
        assert {answer["error"] for answer in joined + synced} == {"NONE"}
        self._members = [{"group_id": group, **place} for group, place in zip(groups, places, strict=True)]

    def _heartbeats(self, count: int, groups: int | None = None) -> list[Request]:
        """Heartbeats of all groups in turn. The pass-through stream does not care whose they are."""
        nobodies = [
            {"group_id": f"group-{number}", "member_id": "nobody" * 8, "generation_id": 1}
            for number in range(self._groups)
        ]
        members = (self._members or nobodies)[:groups]
        chosen = [members[number % len(members)] for number in range(count)]
        return [self._request("heartbeat", **member) for member in chosen]

    def _request(self, api: str, group_id: str, **fields: Any) -> Request:
        self._number += 1
        request_id = f"r{self._number}"
        request = {
            "api": api,
            "request_id": request_id,
            "client_id": "bench",
            "group_id": group_id,
            "reply_partition": _PARTITION,
        }
        return Request(request_id, group_id.encode(), msgspec.json.encode(request | fields))
