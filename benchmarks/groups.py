"""How many groups of one member, which beats every 3 s, one core sustains: with a p99 below those 3 s.

The stream (driver, JVM and Python worker) has a core for itself, and the broker and the load the others. The
groups become more by a tenth every 12 s, until the p99 of two steps is above; the last one before counts.
Beside the coordinator: the no-op on the same short way to and through the Python worker, and on Spark's own.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.flow import LEAD_S, Measured, Step, flow
from benchmarks.members import Members
from benchmarks.report import medians_of, ratios_to, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR, NO_OP, STOCK_NO_OP

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.members import Beat
    from benchmarks.streams import Stream

KINDS = (STOCK_NO_OP, NO_OP, COORDINATOR)
INTERVAL_S = 3.0
_GROWTH = 1.1
_STOCK_SHARE = 0.07
"""Of the groups of the first step."""


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    begin: int
    """Groups of the first step."""
    steps: int
    step_s: float
    warm_up_s: float


def run(plan: Plan, file: Path | None) -> dict[str, float]:
    """Measure, print and write; return how many groups each stream sustains."""
    with Stage(apart=True) as stage:
        rounds = _rounds(stage, plan)
    sustained = [{kind: _sustained(steps) for kind, steps in each.items()} for each in rounds]
    medians: dict[str, float] = medians_of(sustained)
    ratios = {kind: ratios_to(kind, sustained)[COORDINATOR] for kind in KINDS}
    steps = [
        {kind: [_told(each) for each in found] for kind, found in of_round.items()} for of_round in rounds
    ]
    figures = {"groups": medians, "coordinator_to": ratios, "rounds": sustained, "steps": steps}
    write(file, {"plan": plan._asdict(), **figures})
    show(
        f"Groups of one member that one core sustains (medians of {plan.rounds} rounds)",
        ["stream", "groups", "coordinator to it"],
        [[kind, f"{groups:,.0f}", f"{ratios[kind]:.2f}"] for kind, groups in medians.items()],
    )
    return medians


def _rounds(stage: Stage, plan: Plan) -> list[dict[str, list[Measured]]]:
    growth = [_GROWTH**number for number in range(plan.steps)]
    sizes = {
        kind: [int(plan.begin * each * (_STOCK_SHARE if kind == STOCK_NO_OP else 1)) for each in growth]
        for kind in KINDS
    }
    with ExitStack() as stack:
        streams = {}
        for kind in KINDS:
            members = Members(sizes[kind][-1], 1)
            stream = stack.enter_context(stage.stream(kind, members))
            streams[kind] = stream, members.beats()
            # For the JVM's compiler.
            _measure(stage, *streams[kind], sizes[kind][0], plan.warm_up_s)
        rounds = []
        for _ in range(plan.rounds):
            found: dict[str, list[Measured]] = {kind: [] for kind in KINDS}
            for number in range(plan.steps):
                for kind, steps in found.items():
                    if not _is_over(steps):
                        steps.append(_measure(stage, *streams[kind], sizes[kind][number], plan.step_s))
            rounds.append(found)
            tell("round", {kind: [_told(each) for each in steps] for kind, steps in found.items()})
    return rounds


def _measure(stage: Stage, stream: Stream, beats: list[Beat], groups: int, seconds: float) -> Measured:
    per_second = groups / INTERVAL_S
    with stage.turn(stream):
        flow(stream.load, beats, Step(groups, per_second, LEAD_S))
        return flow(stream.load, beats, Step(groups, per_second, seconds))


def _is_over(steps: list[Measured]) -> bool:
    # One alone may be above because the machine was busy with something else.
    return [each.p99_ms > INTERVAL_S * 1000 for each in steps[-2:]] == [True, True]


def _sustained(found: list[Measured]) -> float:
    return max((each.step.beats for each in found if each.p99_ms <= INTERVAL_S * 1000), default=0)


def _told(measured: Measured) -> dict[str, Any]:
    return {"groups": measured.step.beats, "p50_ms": measured.p50_ms, "p99_ms": measured.p99_ms}
