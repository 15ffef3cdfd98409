"""What it costs to measure the lag of many groups: CPU, memory, and requests to brokers.

This process writes the commits, and the measuring is in one of its own, which counts the requests that
kafka-python sends. Each group has committed something in all partitions of one topic.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from kafka import KafkaAdminClient, KafkaProducer
from kafka.net.connection import KafkaConnection
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.report import show, tell, write
from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.jobs.signals import StopEvent
from group_coordinator.lag.metrics import LagMetrics
from group_coordinator.lag.service import measure_lag
from group_coordinator.lag.settings import LagSettings

_COMMITS_EVERY_S = 5.0
_OFFSETS = "coordinator.offsets"
_OFFSETS_PARTITIONS = 4
_TICK_S = 0.05
_MB = 1 << 20
_SPAWN = multiprocessing.get_context("spawn")
Figures = dict[str, float]


class Plan(NamedTuple):
    """How much of what. `topics`: the groups share them evenly."""

    groups: int
    topics: int
    partitions: int
    interval_s: float
    intervals: int


def run(plan: Plan, file: Path | None) -> dict[str, Figures]:
    """Measure, print and write; return the figures of groups that are silent, and of ones that commit."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(EmbeddedBroker(directory, heap_mb=1_024))
        servers = broker.bootstrap_servers
        _make_topics(servers, plan)
        producer = stack.enter_context(closing(KafkaProducer(bootstrap_servers=servers, linger_ms=5)))
        for topic in range(plan.topics):
            for partition in range(plan.partitions):
                producer.send(_topic(topic), b"x", partition=partition)
        commits = cycle(_commits(plan))
        _commit(producer, commits, plan.groups * plan.partitions)
        producer.flush()
        pool = stack.enter_context(ProcessPoolExecutor(1, _SPAWN, max_tasks_per_child=1))
        found = {}
        for name, rate in (
            ("silent", 0.0),
            (f"each commits every {_COMMITS_EVERY_S:g} s", plan.groups * plan.partitions / _COMMITS_EVERY_S),
        ):
            measuring = pool.submit(_measure, servers, plan)
            begin, sent = time.monotonic(), 0
            while not measuring.done():
                time.sleep(_TICK_S)
                due = round((time.monotonic() - begin) * rate) - sent
                _commit(producer, commits, due)
                sent += due
            found[name] = measuring.result()
            tell(name, found[name])
    write(file, {"plan": plan._asdict(), "figures": found})
    names = list(dict.fromkeys(name for figures in found.values() for name in figures))
    rows = [[name, *(f"{each.get(name, 0):,.2f}" for each in found.values())] for name in names]
    title = f"Lag of {plan.groups:,} groups in {plan.partitions} partitions each, of {plan.topics} topics"
    show(title, ["", *found], rows)
    return found


def _topic(number: int) -> str:
    return f"work-{number}"


def _make_topics(servers: str, plan: Plan) -> None:
    topics = {_topic(number): {"num_partitions": plan.partitions} for number in range(plan.topics)}
    topics[_OFFSETS] = {"num_partitions": _OFFSETS_PARTITIONS, "configs": {"cleanup.policy": "compact"}}
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics(topics)
        admin.wait_for_topics(list(topics))


def _commits(plan: Plan) -> list[tuple[bytes, int]]:
    """Key and partition of each."""
    return [
        (
            msgspec.json.encode([f"group-{group:05}", _topic(group % plan.topics), partition]),
            group % _OFFSETS_PARTITIONS,
        )
        for group in range(plan.groups)
        for partition in range(plan.partitions)
    ]


def _commit(producer: KafkaProducer, commits: Any, count: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    value = msgspec.json.encode({"committed_offset": 0, "commit_timestamp_ms": now_ms})
    for _ in range(count):
        key, partition = next(commits)
        producer.send(_OFFSETS, value, key, partition=partition)


# -- in the process that measures ------------------------------------------------------------------------


class _Requests:
    """Counts the requests of all connections of the process, by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        send = KafkaConnection._send_request  # noqa: SLF001

        def counted(connection: Any, request: Any, *arguments: Any, **options: Any) -> Any:
            self.counts[type(request).__name__.removesuffix("Request")] += 1
            return send(connection, request, *arguments, **options)

        KafkaConnection._send_request = counted  # noqa: SLF001


def _measure(servers: str, plan: Plan) -> Figures:
    """Measure for so many intervals, with a look of Prometheus in each, after one to warm up."""
    given = {
        "bootstrap.servers": servers,
        "lag.groups": "*",
        "lag.max.partitions": plan.groups * plan.partitions,
        "lag.interval.ms": round(plan.interval_s * 1_000),
        "create.topics": True,
    }
    settings = LagSettings.load(None, {}, given, needed=())
    requests, metrics, registry = _Requests(), LagMetrics("kafka", plan.interval_s), CollectorRegistry()
    registry.register(metrics)
    stop = StopEvent()
    config = {"bootstrap_servers": servers}
    thread = threading.Thread(target=measure_lag, args=(settings, config, metrics, lambda _: None, stop))
    thread.start()
    try:
        while not metrics.is_ready().good:
            time.sleep(_TICK_S)
        time.sleep(plan.interval_s)
        begin_cpu, before = time.process_time(), Counter(requests.counts)
        scraped_s = 0.0
        for _ in range(plan.intervals):
            time.sleep(plan.interval_s)
            scrape_cpu = time.thread_time()
            size = len(generate_latest(registry))
            scraped_s += time.thread_time() - scrape_cpu
        cpu_s = time.process_time() - begin_cpu
        counts = requests.counts - before
    finally:
        stop.set()
        thread.join()
    per = plan.intervals
    took_s = next(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "group_coordinator_lag_measurement_seconds"
    )
    return {
        "CPU, % of a core": 100 * cpu_s / (per * plan.interval_s),
        "CPU, s per interval": cpu_s / per,
        "of it for Prometheus' look, s": scraped_s / per,
        "size of /metrics, MB": size / _MB,
        "a measurement takes, s": took_s,
        "memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024,
        **{f"{name} requests per interval": count / per for name, count in sorted(counts.items())},
    }
