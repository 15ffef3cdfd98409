"""What many groups cost of which nobody is heard: batches, memory, checkpoint and restart.

Each has one member, whose session does not end while this is measured. A few others beat: batches with
something to do, in which Spark also looks through all groups for those whose time is up.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.batches import Window, size_of, wait_for_rows
from benchmarks.flow import LEAD_S, Step, flow
from benchmarks.load import closed_loop
from benchmarks.members import Members
from benchmarks.report import medians_of, ratios_to, show, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.members import Beat
    from benchmarks.streams import Stream

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
        rounds = _rounds(stage, plan)
    medians: dict[int, Figures] = medians_of(rounds)
    growth: Figures = ratios_to(plan.sizes[0], rounds)[plan.sizes[-1]]
    write(file, {"plan": plan._asdict(), "medians": medians, "growth": growth, "rounds": rounds})
    columns = [f"{size:,} groups" for size in plan.sizes]
    rows = [
        [name, *(f"{each[name]:,.1f}" for each in medians.values()), f"{ratio:.2f}"]
        for name, ratio in growth.items()
    ]
    title = f"Idle groups (medians of {plan.rounds} rounds)"
    show(title, ["", *columns, f"{columns[-1]} to {columns[0]}"], rows)
    return medians


def _rounds(stage: Stage, plan: Plan) -> list[dict[int, Figures]]:
    with ExitStack() as stack:
        streams = {}
        for size in plan.sizes:
            members = Members(size, 1)
            stream = stack.enter_context(stage.stream(COORDINATOR, members, _SETTINGS | plan.settings))
            beats = members.beats()[:_BEATING]
            with stage.turn(stream):
                wait_for_rows(stream, size)
                flow(stream.load, beats, Step(_BEATING, _PER_SECOND, plan.warm_up_s))
            streams[size] = stream, beats

        runs = [
            {size: _run(stage, plan, *each) for size, each in streams.items()} for _ in range(plan.rounds)
        ]
        # None is warm any more when it has begun again.
        restarts = [
            {size: _restart(stage, *each) for size, each in streams.items()} for _ in range(plan.rounds)
        ]
    pairs = zip(runs, restarts, strict=True)
    return [{size: run[size] | restart[size] for size in run} for run, restart in pairs]


def _run(stage: Stage, plan: Plan, stream: Stream, beats: list[Beat]) -> Figures:
    with stage.turn(stream):
        flow(stream.load, beats, Step(_BEATING, _PER_SECOND, LEAD_S))
        window, cpu_s = Window(stream), stream.cpu_seconds()
        trips = flow(stream.load, beats, Step(_BEATING, _PER_SECOND, plan.seconds))
        batches, cpu_s = window.batches(), stream.cpu_seconds() - cpu_s
        memory = stream.memory_bytes()
    return {
        "batch, ms": batches.mean_ms,
        "heartbeat p50, ms": trips.p50_ms,
        "heartbeat p99, ms": trips.p99_ms,
        "cores busy": cpu_s / plan.seconds,
        "JVM, MB": memory["jvm"] / _MB,
        "driver, MB": memory["driver"] / _MB,
        "workers, MB": memory["workers"] / _MB,
    }


def _restart(stage: Stage, stream: Stream, beats: list[Beat]) -> Figures:
    with stage.turn(stream):
        stream.close()
        checkpoint = size_of(stream.checkpoint)
        begin = time.perf_counter()
        stream.start()
        running_s = time.perf_counter() - begin
        stage.pool.submit(closed_loop, stream.load, [beats[0].request(-1)]).result()
        answering_s = time.perf_counter() - begin
    return {
        "checkpoint, MB": checkpoint / _MB,
        "restart until it runs, s": running_s,
        "restart until it answers, s": answering_s,
    }
