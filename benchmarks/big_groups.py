"""Heartbeats per CPU-second in groups of many members, beside streams that do less and the broker itself.

CPU time is that of the stream's processes (driver, JVM, Python worker), or of the broker's when its own
coordinator is asked by its protocol. What a stream costs the broker is told besides.

At full speed: what a stream has to do is written while it is stopped, for a load that goes on all the
time on a few cores is slower than the stream, and would be what is measured.

Each member sends its own heartbeat; those of `together` are one record for each group, as of a program that
hosts all of its members. `a batch a second`: with `trigger.interval.ms = 1000`, where others begin the next
batch when one is done.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.brokers import BrokersGroups
from benchmarks.flow import LEAD_S, Step, flow
from benchmarks.members import Members
from benchmarks.report import medians_of, ratios_to, show, tell, write
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
_WARM_UP = {COORDINATOR + PACED: 5}
"""How many times as long: the JVM's compiler counts calls, of which fewer batches make fewer."""
_PER_SECOND = 3_333
_BACKLOG = 20_000
_BACKLOG_BYTES = 8_000_000
ON_SCHEDULE, AT_FULL_SPEED = "at 3,333/s", "at full speed"
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
    medians, ratios = {}, {}
    rounds = {}
    # As long as the coordinator's, so that all members are in one join phase.
    with Stage(apart=True, broker={"group.initial.rebalance.delay.ms": "3000"}) as stage:
        for groups, size in plan.shapes:
            shape = f"{groups} x {size}"
            rounds[shape] = _rounds(stage, plan, groups, size)
            medians[shape] = medians_of(rounds[shape])
            ratios[shape] = {who: ratios_to(who, rounds[shape]) for who in (NO_OP, BROKER)}
    write(file, {"plan": plan._asdict(), "medians": medians, "ratios": ratios, "rounds": rounds})
    for shape, found in medians.items():
        for rate in (ON_SCHEDULE, AT_FULL_SPEED):
            of = ratios[shape]
            rows = [
                [
                    who,
                    f"{figures[rate]:,.0f}",
                    *(f"{of[neighbour][who][rate]:.2f}" for neighbour in of),
                    f"{figures[rate + _BOTH]:,.0f}",
                ]
                for who, figures in found.items()
            ]
            title = f"Heartbeats per CPU-second, {shape} members, {rate} (medians of {plan.rounds} rounds)"
            show(title, ["", "itself", *(f"to {neighbour}" for neighbour in of), "with the broker"], rows)
    return medians


def _rounds(stage: Stage, plan: Plan, groups: int, size: int) -> list[dict[str, Figures]]:
    brokers = BrokersGroups(stage.broker, groups, size)
    with ExitStack() as stack:
        turns: dict[str, tuple[Stream, list[Beat]]] = {}
        for who, (kind, settings) in STREAMS.items():
            members = Members(groups, size)
            given = {"group.initial.rebalance.delay.ms": 3_000} | settings
            stream = stack.enter_context(stage.stream(kind, members, given))
            turns[who] = stream, members.beats()
            warm_up_s = plan.warm_up_s * _WARM_UP.get(who, 1)
            _warm_up(stage, *turns[who], warm_up_s)
            if kind == COORDINATOR:
                turns[who + TOGETHER] = stream, members.beats_together()
                # Most of what runs is warm by now.
                _warm_up(stage, *turns[who + TOGETHER], warm_up_s / 5)
        with stage.turn(None):
            brokers.flow(_PER_SECOND, plan.warm_up_s)
        rounds = []
        for _ in range(plan.rounds):
            found = {who: _of_stream(stage, plan, *each, brokers) for who, each in turns.items()}
            found[BROKER] = _of_broker(stage, plan, brokers)
            rounds.append(found)
            tell(f"{groups} x {size}", found)
    return rounds


def _warm_up(stage: Stage, stream: Stream, beats: list[Beat], seconds: float) -> None:
    with stage.turn(stream):
        flow(stream.load, beats, Step(len(beats), _PER_SECOND / beats[0].members, seconds))
        # Batches of that size are another thing.
        _drain(stage, stream, beats)


def _of_stream(
    stage: Stage, plan: Plan, stream: Stream, beats: list[Beat], brokers: BrokersGroups
) -> Figures:
    each = beats[0].members
    lead, step = (Step(len(beats), _PER_SECOND / each, seconds) for seconds in (LEAD_S, plan.seconds))
    with stage.turn(stream):
        flow(stream.load, beats, lead)
        before = stream.cpu_seconds(), brokers.cpu_seconds()
        measured = flow(stream.load, beats, step)
        after = stream.cpu_seconds(), brokers.cpu_seconds()
        figures = _figures(ON_SCHEDULE, measured.answered * each, after[0] - before[0], after[1] - before[1])
        end = time.monotonic() + plan.seconds
        broker_s, drained = brokers.cpu_seconds(), []
        while not drained or time.monotonic() < end:
            drained.append(_drain(stage, stream, beats))
        broker_s = brokers.cpu_seconds() - broker_s
    answered, stream_s = (sum(column) for column in zip(*drained, strict=True))
    return figures | _figures(AT_FULL_SPEED, answered * each, stream_s, broker_s)


def _drain(stage: Stage, stream: Stream, beats: list[Beat]) -> tuple[int, float]:
    """Give the stream a backlog; return how many records it has answered, and in how much CPU time, in s."""
    count = min(_BACKLOG, max(len(beats), _BACKLOG_BYTES // len(beats[0].request(0).value)))
    return count, stage.drain(stream, [beats[number % len(beats)].request(number) for number in range(count)])


def _of_broker(stage: Stage, plan: Plan, brokers: BrokersGroups) -> Figures:
    figures: Figures = {}
    with stage.turn(None):
        for name, per_second in ((ON_SCHEDULE, _PER_SECOND), (AT_FULL_SPEED, None)):
            before = brokers.cpu_seconds()
            answered = brokers.flow(per_second, plan.seconds)
            figures |= _figures(name, answered, 0, brokers.cpu_seconds() - before)
    return figures


def _figures(name: str, beats: int, stream_s: float, broker_s: float) -> Figures:
    both = beats / (stream_s + broker_s)
    return {name: beats / stream_s if stream_s else both, name + _BOTH: both}
