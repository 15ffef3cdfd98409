"""Heartbeats per CPU-second in groups of many members, beside streams that do less and the broker itself.

CPU time is that of the stream's processes (driver, JVM, Python worker), or of the broker's when its own
coordinator is asked by its protocol. What a stream costs the broker is told besides.

Each member sends its own heartbeat; those of `together` are one record for each group, as of a program that
hosts all of its members. `a batch a second`: with `trigger.interval.ms = 1000`, where others begin the next
batch when one is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from benchmarks.brokers import BrokersGroups
from benchmarks.flow import Step, flow
from benchmarks.members import Members
from benchmarks.report import medians_of, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR, NO_OP, PASS_THROUGH

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.members import Beat
    from benchmarks.streams import Stream

BROKER = "broker"
TOGETHER, PACED = ", together", ", a batch a second"
STREAMS: dict[str, tuple[str, dict[str, object]]] = {
    PASS_THROUGH: (PASS_THROUGH, {}),
    NO_OP: (NO_OP, {}),
    COORDINATOR: (COORDINATOR, {}),
    COORDINATOR + PACED: (COORDINATOR, {"trigger.interval.ms": 1_000}),
}
_PER_SECOND = 3_333
_RATES = {"at 3,333/s": _PER_SECOND, "as fast as answered": None}
_BOTH = ", with the broker"
Figures = dict[str, float]
"""Heartbeats per CPU-second."""


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    shapes: tuple[tuple[int, int], ...]
    """Groups, and members of each."""
    warm_up_s: float
    seconds: float


def run(plan: Plan, file: Path | None) -> dict[str, dict[str, Figures]]:
    """Measure, print and write; return the medians by shape and neighbour."""
    medians = {}
    rounds = {}
    # As long as the coordinator's, so that all members are in one join phase.
    with Stage(apart=True, broker={"group.initial.rebalance.delay.ms": "3000"}) as stage:
        for groups, size in plan.shapes:
            shape = f"{groups} x {size}"
            rounds[shape] = [_round(stage, plan, groups, size) for _ in range(plan.rounds)]
            medians[shape] = medians_of(rounds[shape])
    for shape, found in medians.items():
        columns = list(found[COORDINATOR])
        show(
            f"Heartbeats per CPU-second, {shape} members (medians of {plan.rounds} rounds)",
            ["", *columns],
            [[who, *(f"{figures[name]:,.0f}" for name in columns)] for who, figures in found.items()],
        )
    write(file, {"plan": plan._asdict(), "medians": medians, "rounds": rounds})
    return medians


def _round(stage: Stage, plan: Plan, groups: int, size: int) -> dict[str, Figures]:
    brokers = BrokersGroups(stage.broker, groups, size)
    found: dict[str, Figures] = {}
    for who, (kind, settings) in STREAMS.items():
        members = Members(groups, size)
        with stage.stream(kind, members, {"group.initial.rebalance.delay.ms": 3_000} | settings) as stream:
            found[who] = _of_stream(plan, stream, brokers, members.beats())
            tell(f"{groups} x {size}, {who}", found[who])
            if kind == COORDINATOR:
                # Most of what runs is warm by now.
                again = plan._replace(warm_up_s=plan.warm_up_s / 5)
                found[who + TOGETHER] = _of_stream(again, stream, brokers, members.beats_together())
                tell(f"{groups} x {size}, {who + TOGETHER}", found[who + TOGETHER])
    found[BROKER] = _of_broker(plan, brokers, groups * size)
    tell(f"{groups} x {size}, {BROKER}", found[BROKER])
    return found


def _of_stream(plan: Plan, stream: Stream, brokers: BrokersGroups, beats: list[Beat]) -> Figures:
    each = beats[0].members
    figures = {}
    flow(stream.load, beats, [Step(len(beats), _PER_SECOND / each, plan.warm_up_s)])
    for name, per_second in _RATES.items():
        before = stream.cpu_seconds(), brokers.cpu_seconds()
        (measured,) = flow(
            stream.load, beats, [Step(len(beats), per_second and per_second / each, plan.seconds)]
        )
        ours, theirs = stream.cpu_seconds() - before[0], brokers.cpu_seconds() - before[1]
        figures[name] = measured.answered * each / ours
        figures[name + _BOTH] = measured.answered * each / (ours + theirs)
    return figures


def _of_broker(plan: Plan, brokers: BrokersGroups, beats: int) -> Figures:
    figures = {}
    brokers.flow(Step(beats, _PER_SECOND, plan.warm_up_s))
    for name, per_second in _RATES.items():
        before = brokers.cpu_seconds()
        answered = brokers.flow(Step(beats, per_second, plan.seconds))
        figures[name] = figures[name + _BOTH] = answered / (brokers.cpu_seconds() - before)
    return figures
