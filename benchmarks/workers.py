"""Ways from Spark to a stateful function in Python: what a heartbeat of a group of one member takes on each.

All of them do nothing but answer and write the group's state and deadline. The short way leans on pyspark's
internals, and the others do not. Each stream is given a backlog while it is stopped.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.members import Members
from benchmarks.report import medians_of, ratios_to, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import FRAMES_NO_OP, NO_OP, ROWS_NO_OP, STOCK_NO_OP

if TYPE_CHECKING:
    from pathlib import Path

KINDS = (NO_OP, STOCK_NO_OP, ROWS_NO_OP, FRAMES_NO_OP)


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    groups: int
    warm_up: int
    """Backlogs before the first round."""


def run(plan: Plan, file: Path | None) -> dict[str, float]:
    """Measure, print and write; return the heartbeats per CPU second by way."""
    beats = Members(plan.groups, 1).beats()
    requests = [beat.request(number) for number, beat in enumerate(beats)]
    with Stage() as stage, ExitStack() as stack:
        streams = {kind: stack.enter_context(stage.stream(kind)) for kind in KINDS}

        def measure(kind: str) -> float:
            with stage.turn(streams[kind]):
                return len(requests) / stage.drain(streams[kind], requests)

        for kind in KINDS:
            for _ in range(plan.warm_up):
                measure(kind)
        rounds = []
        for _ in range(plan.rounds):
            rounds.append({kind: measure(kind) for kind in KINDS})
            tell("round", rounds[-1])
    medians: dict[str, float] = medians_of(rounds)
    ratios = {kind: ratios_to(kind, rounds)[NO_OP] for kind in KINDS}
    show(
        f"Heartbeats a CPU second, {plan.groups:,} groups of one member (medians of {plan.rounds} rounds)",
        ["stream", "heartbeats", "the short way to it"],
        [[kind, f"{rate:,.0f}", f"{ratios[kind]:.2f}"] for kind, rate in medians.items()],
    )
    write(file, {"plan": plan._asdict(), "medians": medians, "no_op_to": ratios, "rounds": rounds})
    return medians
