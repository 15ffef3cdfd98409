"""How fast a coordinator reads a backlog of heartbeats, and in how much memory.

The requests are written while it is down. It starts again and again from the same checkpoint with another
`max.batch.records`. One of these bounds is the whole backlog, which makes one big batch of it. It can be left
out, since 10 million heartbeats in one batch take more memory than most machines have.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.load import write_requests
from benchmarks.members import Members
from benchmarks.report import medians_of, ratios_to, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR
from benchmarks.watch import watched

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from benchmarks.load import Load
    from benchmarks.streams import Stream

_MEMBERS = 100
"""Of each group."""
_AT_ONCE = 50_000
_SETTINGS = {"group.initial.rebalance.delay.ms": 3_000}
_BOUND = "max.batch.records"


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    groups: int
    """Of 100 members."""
    records: int
    bounds: tuple[int, ...]
    """Of records in a batch."""
    one_batch: bool
    """Whether the whole backlog is one more bound."""
    settings: dict[str, str]


def run(plan: Plan, file: Path | None) -> dict[str, dict[str, float]]:
    """Measure, print and write; return the medians by bound."""
    members = Members(plan.groups, _MEMBERS)
    bounds = [*plan.bounds, *([plan.records * 2] if plan.one_batch else [])]
    with Stage() as stage, stage.stream(COORDINATOR, members, _SETTINGS | plan.settings) as stream:
        stream.close()
        before = stream.checkpoint.with_name("before")
        shutil.copytree(stream.checkpoint, before)
        _write(stage.pool, stream.load, members, plan.records)
        rounds = []
        for _ in range(plan.rounds):
            rounds.append({str(bound): _catch_up(stream, before, bound, plan.records) for bound in bounds})
            tell("round", rounds[-1])
    medians: dict[str, dict[str, float]] = medians_of(rounds)
    # Each beside the one batch, or beside the largest bound.
    neighbour = str(bounds[-1])
    ratios = ratios_to(neighbour, rounds)
    show(
        f"A backlog of {plan.records:,} heartbeats (medians of {plan.rounds} rounds)",
        [
            _BOUND,
            "a second",
            "to the last",
            "a CPU second",
            "workers, most MB",
            "JVM, most MB",
            "both, last to first third",
        ],
        [
            [
                "one batch" if plan.one_batch and bound == neighbour else bound,
                f"{each['records_a_second']:,.0f}",
                f"{ratios[bound]['records_a_second']:.2f}",
                f"{each['records_a_cpu_second']:,.0f}",
                f"{each['workers_mb']:,.0f}",
                f"{each['jvm_mb']:,.0f}",
                f"{each['growth']:.2f}",
            ]
            for bound, each in medians.items()
        ],
    )
    write(file, {"plan": plan._asdict(), "medians": medians, "ratios": ratios, "rounds": rounds})
    return medians


def _write(pool: Executor, load: Load, members: Members, records: int) -> None:
    beats = members.beats()
    for first in range(0, records, _AT_ONCE):
        some = range(first, min(first + _AT_ONCE, records))
        pool.submit(write_requests, load, [beats[each % len(beats)].request(each) for each in some]).result()


def _catch_up(stream: Stream, before: Path, bound: int, records: int) -> dict[str, float]:
    """Start from the checkpoint that knows nothing of the backlog, until all of it is answered."""
    shutil.rmtree(stream.checkpoint)
    shutil.copytree(before, stream.checkpoint)
    with watched(stream) as samples:
        stream.start({_BOUND: bound})
    took_s = stream.said_s["the coordinator is running"] - stream.said_s["catching up with the log"]
    stream.close()
    third = max(1, len(samples) // 3)
    first, last = (
        max(each.workers_mb + each.jvm_mb for each in part) for part in (samples[:third], samples[-third:])
    )
    return {
        "records_a_second": records / took_s,
        "records_a_cpu_second": records / (samples[-1].cpu_s - samples[0].cpu_s),
        "workers_mb": max(each.workers_mb for each in samples),
        "jvm_mb": max(each.jvm_mb for each in samples),
        "growth": last / first,
    }
