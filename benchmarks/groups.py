"""How many groups of one member, which beats every 3 s, one core sustains: with a p99 below those 3 s.

The stream (driver, JVM and Python worker) has a core for itself, and the broker and the load the others. The
groups become more by a tenth every 12 s, until the p99 of two steps is above; the last one before counts.
Beside the coordinator: the no-op on the same short way to and through the Python worker, and on Spark's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.flow import Measured, Step, flow
from benchmarks.members import Members
from benchmarks.report import medians_of, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR, NO_OP, STOCK_NO_OP

if TYPE_CHECKING:
    from pathlib import Path

KINDS = (STOCK_NO_OP, NO_OP, COORDINATOR)
INTERVAL_S = 3.0
_GROWTH = 1.1
_STOCK_SHARE = 0.1
"""Of the groups of the first step."""


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    begin: int
    """Groups of the first step."""
    most: int
    step_s: float
    warm_up_s: float


def run(plan: Plan, file: Path | None) -> dict[str, float]:
    """Measure, print and write; return how many groups each stream sustains."""
    with Stage(apart=True) as stage:
        rounds = [{kind: _ramp(stage, kind, plan) for kind in KINDS} for _ in range(plan.rounds)]
    sustained = [{kind: _sustained(steps) for kind, steps in each.items()} for each in rounds]
    medians: dict[str, float] = medians_of(sustained)
    ours = medians[COORDINATOR]
    show(
        f"Groups of one member that one core sustains (medians of {plan.rounds} rounds)",
        ["stream", "groups", "the coordinator's share of it"],
        [[kind, f"{groups:,.0f}", f"{ours / groups:.2f}"] for kind, groups in medians.items()],
    )
    steps = [
        {kind: [_told(each) for each in found] for kind, found in of_round.items()} for of_round in rounds
    ]
    write(file, {"plan": plan._asdict(), "groups": medians, "rounds": sustained, "steps": steps})
    return medians


def _ramp(stage: Stage, kind: str, plan: Plan) -> list[Measured]:
    begin = int(plan.begin * (_STOCK_SHARE if kind == STOCK_NO_OP else 1))
    sizes = [begin]
    while sizes[-1] < plan.most:
        sizes.append(int(sizes[-1] * _GROWTH))
    members = Members(sizes[-1], 1)
    with stage.stream(kind, members) as stream:
        beats = members.beats()
        # For the JVM's compiler.
        flow(stream.load, beats, [Step(begin, begin / INTERVAL_S, plan.warm_up_s)])
        steps = [Step(size, size / INTERVAL_S, plan.step_s) for size in sizes]
        found = flow(stream.load, beats, steps, limit_ms=INTERVAL_S * 1000)
    tell(kind, [_told(each) for each in found])
    return found


def _sustained(found: list[Measured]) -> float:
    return max((each.step.beats for each in found if each.p99_ms <= INTERVAL_S * 1000), default=0)


def _told(measured: Measured) -> dict[str, Any]:
    return {"groups": measured.step.beats, "p50_ms": measured.p50_ms, "p99_ms": measured.p99_ms}
