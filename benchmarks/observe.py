"""What it costs to watch groups at the brokers, beside a query that only reads their log.

This process writes records of groups and commits into `__consumer_offsets`, as the brokers' coordinator does.
A query reads one backlog to warm up, and is stopped while the next one is written. Its CPU seconds for that
one count, of Java and of Python. Then it begins anew, at a log with a record for each of very many keys.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from benchmarks.report import medians_of, ratios_to, show, tell, write
from group_coordinator.coordinator_state.topics import BROKERS_LOG
from group_coordinator.deploy.broker import EmbeddedBroker

_OBSERVE, _READER = "observe", "reads only"
_PATIENCE_S, _LOOK_S = 900.0, 0.2
_LOG_PARTITIONS = 10
_MB = 1 << 20
_BATCH_BYTES = 500_000
Figures = dict[str, float]


class Plan(NamedTuple):
    """How much of what. `commits`: of a backlog. `keys`: of the log that is read from its beginning."""

    rounds: int
    groups: int
    partitions: int
    commits: int
    keys: int


def run(plan: Plan, file: Path | None) -> dict[str, Any]:
    """Measure, print and write; return the figures of both queries."""
    rounds: list[dict[Any, Any]] = []
    with _broker() as servers:
        log = _Log(servers)
        commits = _commits(plan.groups, plan.partitions)
        for _ in range(plan.rounds):
            rounds.append({kind: _backlog(kind, servers, log, commits, plan) for kind in (_OBSERVE, _READER)})
            tell("a round", rounds[-1])
    figures = medians_of(rounds)
    ratios = ratios_to(_READER, rounds)
    with _broker() as servers:
        log = _Log(servers)
        log.write(islice(_commits(plan.keys // plan.partitions, plan.partitions), plan.keys))
        start = _from_beginning(servers, log)
        tell(f"a log of {plan.keys:,} keys", start)
    write(file, {"plan": plan._asdict(), "figures": figures, "ratios": ratios, "start": start})
    names = list(figures[_OBSERVE])
    rows = [
        [kind, *(f"{figures[kind][name]:,.1f}" for name in names), f"{ratios[kind]['CPU, s']:.2f}"]
        for kind in figures
    ]
    show(f"{plan.commits:,} commits of {plan.groups:,} groups", ["", *names, "CPU, ratio"], rows)
    rows = [[f"{value:,.1f}" for value in start.values()]]
    show(f"From the beginning of {plan.keys:,} keys", [*start], rows)
    return {"figures": figures, "ratios": ratios, "start": start}


# -- the log ---------------------------------------------------------------------------------------------


@contextmanager
def _broker() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="group-coordinator-") as directory:
        overrides = {"offsets.topic.num.partitions": str(_LOG_PARTITIONS)}
        with EmbeddedBroker(Path(directory), heap_mb=1_024, overrides=overrides) as broker:
            yield broker.bootstrap_servers


class _Log:
    """Writes the brokers' log of groups."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        # The broker makes the topic for the first group.
        with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
            admin.create_topics({"t": {"num_partitions": 1}})
            admin.wait_for_topics(["t"])
        first = TopicPartition("t", 0)
        with closing(KafkaConsumer(bootstrap_servers=servers, group_id="first")) as consumer:
            consumer.assign([first])
            consumer.commit({first: OffsetAndMetadata(0, "", -1)})

    def write(self, records: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Write records, each with its key, value and the number of its group."""
        # Others may not write to this topic.
        config = {"client_id": "__admin_client", "linger_ms": 20, "batch_size": _BATCH_BYTES}
        with closing(KafkaProducer(bootstrap_servers=self._servers, **config)) as producer:
            for key, value, group in records:
                producer.send(BROKERS_LOG, key=key, value=value, partition=group % _LOG_PARTITIONS)
            producer.flush()

    def ends(self) -> dict[str, int]:
        """The ends of its partitions, by number, as Spark writes them down."""
        partitions = [TopicPartition(BROKERS_LOG, number) for number in range(_LOG_PARTITIONS)]
        with closing(KafkaConsumer(bootstrap_servers=self._servers)) as consumer:
            found = consumer.end_offsets(partitions)
        return {str(each.partition): end for each, end in found.items()}


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _commits(groups: int, partitions: int) -> Iterator[tuple[bytes, bytes, int]]:
    """Commits of all groups in all partitions, again and again: OffsetCommitKey 1, OffsetCommitValue 3."""
    offset = 0
    while True:
        offset += 1
        for partition in range(partitions):
            for group in range(groups):
                key = struct.pack(">h", 1) + _text(f"group-{group:06}") + _text("t")
                value = struct.pack(">hqi", 3, offset, -1) + _text("")
                yield (
                    key + struct.pack(">i", partition),
                    value + struct.pack(">q", time.time_ns() // 1_000_000),
                    group,
                )


# -- the queries -----------------------------------------------------------------------------------------


class _Query:
    """A query in processes of its own, with a checkpoint of its own, until the context ends."""

    def __init__(self, kind: str, servers: str) -> None:
        self._resources = ExitStack()
        directory = Path(self._resources.enter_context(tempfile.TemporaryDirectory()))
        self._checkpoint, self._said = directory / "checkpoint", directory / "said"
        words = {
            _OBSERVE: (
                *("-m", "group_coordinator", "observe", "--bootstrap-server", servers, "--create-topics"),
                *("--checkpoint", str(self._checkpoint), "--metrics-port", "-1"),
            ),
            _READER: ("-m", "benchmarks.observe", servers, str(self._checkpoint)),
        }[kind]
        said = self._resources.enter_context(self._said.open("w"))
        self._process = subprocess.Popen(
            [sys.executable, *words], stdout=said, stderr=said, start_new_session=True
        )
        self._resources.callback(self._process.wait)
        self._resources.callback(os.killpg, self._process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it meanwhile."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)

    def await_end(self, ends: dict[str, int]) -> None:
        """Wait until it has committed a batch that ends there."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while not self._has_read(ends):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"it has not read to {ends}:\n{self._said.read_text()}")
            time.sleep(_LOOK_S)

    def _has_read(self, ends: dict[str, int]) -> bool:
        done = [int(each.name) for each in self._checkpoint.glob("commits/*") if each.name.isdecimal()]
        if not done:
            return False
        (line,) = (self._checkpoint / f"offsets/{max(done)}").read_text().splitlines()[-1:]
        read = json.loads(line)[BROKERS_LOG]
        return all(read.get(number, 0) >= end for number, end in ends.items())

    def usage(self) -> dict[str, tuple[float, float]]:
        """The CPU seconds so far and the memory in MB, of Java and of Python."""
        found = {"Java": (0.0, 0.0), "Python": (0.0, 0.0)}
        main = psutil.Process(self._process.pid)
        for each in (main, *main.children(recursive=True)):
            name = "Java" if each.name() == "java" else "Python"
            cpu, memory = each.cpu_times(), each.memory_info().rss / _MB
            before_s, before_mb = found[name]
            found[name] = (before_s + cpu.user + cpu.system, before_mb + memory)
        return found


def _backlog(kind: str, servers: str, log: _Log, commits: Iterator[Any], plan: Plan) -> Figures:
    """Have one backlog read to warm up, and return the CPU seconds of the next one."""
    with _Query(kind, servers) as query:
        log.write(islice(commits, plan.commits))
        query.await_end(log.ends())
        with query.paused():
            log.write(islice(commits, plan.commits))
            ends, before = log.ends(), query.usage()
        query.await_end(ends)
        return _figures(before, query.usage()) | {"commits": float(plan.commits)}


def _from_beginning(servers: str, log: _Log) -> Figures:
    begin_s = time.monotonic()
    with _Query(_OBSERVE, servers) as query:
        query.await_end(log.ends())
        usage = query.usage()
        nothing = dict.fromkeys(usage, (0.0, 0.0))
        memory = {f"memory of {name}, MB": mb for name, (_, mb) in usage.items()}
        return _figures(nothing, usage) | memory | {"took, s": time.monotonic() - begin_s}


def _figures(before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]) -> Figures:
    of_each = {f"of {name}": after[name][0] - before[name][0] for name in after}
    return {"CPU, s": sum(of_each.values()), **of_each}


def _read_only(servers: str, checkpoint: str) -> None:
    """Read the same log with the same settings, and do nothing with it. Runs until it is killed."""
    from group_coordinator.jobs.session import create_session
    from group_coordinator.observe.query import USE_CONSUMER, read_log
    from group_coordinator.observe.settings import ObserveSettings

    given = {"bootstrap.servers": servers, "observe.checkpoint": checkpoint, "of": "brokers"}
    settings = ObserveSettings.load(None, {}, given)
    spark = create_session(settings, checkpoint, defaults={USE_CONSUMER: "true"})
    stream = read_log(spark, settings, _LOG_PARTITIONS).writeStream.format("noop")
    trigger = f"{settings.observe_trigger_interval_ms} milliseconds"
    stream.option("checkpointLocation", checkpoint).trigger(processingTime=trigger).start().awaitTermination()


if __name__ == "__main__":
    _read_only(*sys.argv[1:])
