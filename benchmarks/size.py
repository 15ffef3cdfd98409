"""What many groups cost of which nobody is heard: batches, memory, checkpoint and restart.

Each has one member, whose session does not end while this is measured. A few others beat: batches with
something to do, in which Spark also looks through all groups for those whose time is up.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.batches import Window, size_of, wait_for_rows
from benchmarks.flow import Step, flow
from benchmarks.load import closed_loop
from benchmarks.members import Members
from benchmarks.report import medians_of, show, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR

if TYPE_CHECKING:
    from pathlib import Path

_BEATING = 20
_PER_SECOND = 20.0
_MB = 1e6
_SETTINGS = {"state.partitions": "2"}
"""As many groups want it: on so many cores their deadlines are looked at."""
Figures = dict[str, float]


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    sizes: tuple[int, ...]
    warm_up_s: float
    seconds: float
    settings: dict[str, str]


def run(plan: Plan, file: Path | None) -> dict[int, Figures]:
    """Measure, print and write; return the medians by number of groups."""
    with Stage() as stage:
        rounds = [{size: _measure(stage, plan, size) for size in plan.sizes} for _ in range(plan.rounds)]
    medians: dict[int, Figures] = medians_of(rounds)
    least, most = medians[plan.sizes[0]], medians[plan.sizes[-1]]
    columns = [f"{size:,} groups" for size in plan.sizes]
    rows = [
        [name, *(f"{each[name]:,.1f}" for each in medians.values()), f"{most[name] / least[name]:.2f}"]
        for name in least
    ]
    title = f"Idle groups (medians of {plan.rounds} rounds)"
    show(title, ["", *columns, f"{columns[-1]} to {columns[0]}"], rows)
    write(file, {"plan": plan._asdict(), "medians": medians, "rounds": rounds})
    return medians


def _measure(stage: Stage, plan: Plan, size: int) -> Figures:
    members = Members(size, 1)
    with stage.stream(COORDINATOR, members, _SETTINGS | plan.settings) as stream:
        wait_for_rows(stream, size)
        beats = members.beats()[:_BEATING]
        flow(stream.load, beats, [Step(_BEATING, _PER_SECOND, plan.warm_up_s)])
        window, cpu_s = Window(stream), stream.cpu_seconds()
        (trips,) = flow(stream.load, beats, [Step(_BEATING, _PER_SECOND, plan.seconds)])
        batches, cpu_s = window.batches(), stream.cpu_seconds() - cpu_s
        memory = stream.memory_bytes()
        stream.close()
        checkpoint = size_of(stream.checkpoint)
        begin = time.perf_counter()
        stream.start()
        running_s = time.perf_counter() - begin
        stage.pool.submit(closed_loop, stream.load, [beats[0].request(-1)]).result()
        answering_s = time.perf_counter() - begin
    return {
        "batch, ms": batches.mean_ms,
        "heartbeat p50, ms": trips.p50_ms,
        "heartbeat p99, ms": trips.p99_ms,
        "cores busy": cpu_s / plan.seconds,
        "JVM, MB": memory["jvm"] / _MB,
        "driver, MB": memory["driver"] / _MB,
        "workers, MB": memory["workers"] / _MB,
        "checkpoint, MB": checkpoint / _MB,
        "restart until it runs, s": running_s,
        "restart until it answers, s": answering_s,
    }
