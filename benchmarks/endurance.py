"""Whether memory, batches, checkpoint and topics stay as they are under load for long.

Groups of one member beat every 3 s, and some of them go and come again all the time, which writes events and
compacted topics. The topics keep 2 minutes, in segments of half a minute, and not days: whether they are
bounded is to be seen while this runs.

The machine need not stay as it is, either: the same work in Python, done at each sample, is the neighbour.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from benchmarks.batches import Window, size_of
from benchmarks.flow import Step, flow
from benchmarks.members import Members
from benchmarks.report import show, thirds, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streams import Stream

INTERVAL_S = 3.0
_RETENTION = {"retention.ms": "120000", "segment.ms": "30000"}
_SOON = {"log.retention.check.interval.ms": "10000", "log.cleaner.backoff.ms": "5000"}
_MB = 1e6
_SAME_WORK = 3_000_000
Sample = dict[str, float]


class Plan(NamedTuple):
    """How much of what."""

    minutes: int
    groups: int
    sample_s: float


def run(plan: Plan, file: Path | None) -> list[Sample]:
    """Measure, print and write; return the samples in order."""
    members = Members(plan.groups, 1)
    samples: list[Sample] = []
    with Stage(broker=_SOON) as stage, stage.stream(COORDINATOR, members) as stream:
        _keep_little(stage.broker.bootstrap_servers, stream.topics)
        begin = time.monotonic()
        while (minutes := (time.monotonic() - begin) / 60) < plan.minutes:
            samples.append({"minute": minutes} | _sample(stage, stream, members, plan))
    first, last = thirds(samples)
    show(
        f"{plan.minutes} minutes of {plan.groups / INTERVAL_S:,.0f} heartbeats/s (medians of thirds)",
        ["", "first third", "last third", "ratio"],
        [
            [name, f"{first[name]:,.1f}", f"{last[name]:,.1f}", _ratio(first[name], last[name])]
            for name in first
        ],
    )
    write(file, {"plan": plan._asdict(), "samples": samples})
    return samples


def _keep_little(address: str, topics: list[str]) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, _RETENTION) for topic in topics])


def _sample(stage: Stage, stream: Stream, members: Members, plan: Plan) -> Sample:
    window, cpu_s, begin = Window(stream), stream.cpu_seconds(), time.monotonic()
    beats = members.beats()
    trips = flow(stream.load, beats, Step(len(beats), len(beats) / INTERVAL_S, plan.sample_s))
    members.come_again(stage.pool, stream.load, plan.groups // 50)
    took_s = time.monotonic() - begin
    batches, memory = window.batches(), stream.memory_bytes()
    return {
        "the same work, ms": _same_work_ms(),
        "batch, ms": batches.mean_ms,
        "heartbeat p50, ms": trips.p50_ms,
        "heartbeat p99, ms": trips.p99_ms,
        "cores busy": (stream.cpu_seconds() - cpu_s) / took_s,
        **{f"{name}, MB": used / _MB for name, used in memory.items()},
        "checkpoint, MB": size_of(stream.checkpoint) / _MB,
        "topics, MB": size_of(stage.broker.log_file.parent) / _MB,
    }


def _same_work_ms() -> float:
    begin = time.process_time()
    sum(number * number for number in range(_SAME_WORK))
    return (time.process_time() - begin) * 1000


def _ratio(first: float, last: float) -> str:
    return f"{last / first:.2f}" if first else "-"
