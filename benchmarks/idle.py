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
_WAKE_UPS = 1_000
_SLEEP_S = 0.002


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    groups: int
    warm_up_s: float
    calm_s: float
    """For a coordinator, before each measurement. After a minute of nothing it polls less often."""
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
        turns = [
            _Turn(kind, stage, plan, stack.enter_context(stage.stream(kind, members, plan.settings)), members)
            for kind, members in ((kind, Members(plan.groups, 1)) for kind in plan.kinds)
        ]
        for turn in turns:
            with stage.turn(turn.stream):
                # For the JVM's compiler.
                turn.beat(plan.warm_up_s)
        turns.append(_Turn(NOBODY, stage, plan))
        rounds, wake_ups_us = [], []
        for _ in range(plan.rounds):
            wake_ups_us.append(_wake_up_us())
            rounds.append({turn.kind: turn.watch() for turn in turns})
    medians = {
        kind: Figures(*(statistics.median(each[kind][part] for each in rounds) for part in range(2)))
        for kind in rounds[0]
    }
    wake_up_us = statistics.median(wake_ups_us)
    show(
        f"Percent of a core with {plan.groups} groups and no requests (medians of {plan.rounds} rounds; "
        f"a wake-up took {wake_up_us:.0f} us)",
        ["", "stream", "its broker"],
        [[kind, f"{each.stream:.1f}", f"{each.broker:.1f}"] for kind, each in medians.items()],
    )
    figures = {"medians_percent": medians, "rounds_percent": rounds, "wake_ups_us": wake_ups_us}
    write(file, {"plan": plan._asdict(), **figures})
    return medians


def _wake_up_us() -> float:
    """CPU time that a thread takes to sleep and wake up; an idle process does little else."""
    before = time.thread_time()
    for _ in range(_WAKE_UPS):
        time.sleep(_SLEEP_S)
    return 1e6 * (time.thread_time() - before) / _WAKE_UPS


class _Turn(NamedTuple):
    """The turn of a stream, or of none."""

    kind: str
    stage: Stage
    plan: Plan
    stream: Stream | None = None
    members: Members | None = None

    def beat(self, seconds: float) -> None:
        """All members in turn send heartbeats."""
        if self.stream is not None and self.members is not None:
            flow(self.stream.load, self.members.beats(), Step(self.plan.groups, _PER_SECOND, seconds))

    def watch(self) -> Figures:
        """What stream and broker take when nothing comes."""
        with self.stage.turn(self.stream):
            # A coordinator that was paused has begun again, and has to hear of its groups.
            self.beat(self.plan.groups / _PER_SECOND)
            time.sleep(self.plan.calm_s if self.kind == COORDINATOR else _CALM_S)
            before = self._spent()
            time.sleep(self.plan.seconds)
            ours, theirs = (after - then for after, then in zip(self._spent(), before, strict=True))
        return Figures(100 * ours / self.plan.seconds, 100 * theirs / self.plan.seconds)

    def _spent(self) -> tuple[float, float]:
        times = psutil.Process(self.stage.broker.pid).cpu_times()
        return (self.stream.cpu_seconds() if self.stream else 0.0, times.user + times.system)
