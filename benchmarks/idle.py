"""What a coordinator costs that nobody asks anything, beside streams that do less and the broker."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import psutil

from benchmarks.flow import Step, flow
from benchmarks.members import Members
from benchmarks.report import show, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR, NO_OP, PASS_THROUGH

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streams import Stream

NOBODY = "no stream"
KINDS = (PASS_THROUGH, NO_OP, COORDINATOR)
_PER_SECOND = 100.0
_CALM_S = 5
"""For all but a coordinator."""


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    groups: int
    warm_up_s: float
    calm_s: float
    """A coordinator is left alone for this long before each measurement: it restarts its query when it was
    paused. After half an hour it ticks less often."""
    seconds: float
    kinds: tuple[str, ...]
    """Of streams."""
    settings: dict[str, str]


class Figures(NamedTuple):
    """Percent of a core."""

    stream: float
    broker: float


def run(plan: Plan, file: Path | None) -> dict[str, Figures]:
    """Measure, print and write; return the medians by stream."""
    with Stage() as stage, ExitStack() as stack:
        streams = {}
        for kind in plan.kinds:
            members = Members(plan.groups, 1)
            stream = streams[kind] = stack.enter_context(stage.stream(kind, members, plan.settings))
            with stage.turn(stream):
                # For the JVM's compiler.
                flow(stream.load, members.beats(), Step(plan.groups, _PER_SECOND, plan.warm_up_s))
        turns = streams | {NOBODY: None}
        rounds = [
            {
                kind: _watch(stage, stream, plan.calm_s if kind == COORDINATOR else _CALM_S, plan.seconds)
                for kind, stream in turns.items()
            }
            for _ in range(plan.rounds)
        ]
    medians = {
        kind: Figures(*(statistics.median(each[kind][part] for each in rounds) for part in range(2)))
        for kind in turns
    }
    show(
        f"Percent of a core with {plan.groups} groups and no requests (medians of {plan.rounds} rounds)",
        ["", "stream", "its broker"],
        [[kind, f"{each.stream:.1f}", f"{each.broker:.1f}"] for kind, each in medians.items()],
    )
    write(file, {"plan": plan._asdict(), "medians_percent": medians, "rounds_percent": rounds})
    return medians


def _watch(stage: Stage, stream: Stream | None, calm_s: float, seconds: float) -> Figures:
    broker = psutil.Process(stage.broker.pid)

    def spent() -> tuple[float, float]:
        times = broker.cpu_times()
        return (stream.cpu_seconds() if stream else 0.0, times.user + times.system)

    with stage.turn(stream):
        time.sleep(calm_s)
        before = spent()
        time.sleep(seconds)
        ours, theirs = (after - then for after, then in zip(spent(), before, strict=True))
    return Figures(100 * ours / seconds, 100 * theirs / seconds)
