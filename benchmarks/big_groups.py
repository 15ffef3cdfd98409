"""Heartbeats per CPU-second in groups of many members, beside streams that do less and the broker itself.

CPU time is that of the stream's processes (driver, JVM, Python worker), or of the broker's when its own
coordinator is asked by its protocol. What a stream costs the broker is told besides.

At full speed: what a stream has to do is written while it is paused, for a load that goes on all the
time on a few cores is slower than the stream, and would be what is measured.

Each member sends its own heartbeat; those of `together` are one record for each group, as of a program that
hosts all of its members. `a batch a second`: with `trigger.interval.ms = 1000`, where others begin the next
batch when one is done.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.brokers import BrokersGroups
from benchmarks.flow import Step, flow
from benchmarks.load import Answers, write_requests
from benchmarks.members import Members
from benchmarks.report import medians_of, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR, NO_OP, PASS_THROUGH

if TYPE_CHECKING:
    from concurrent.futures import Executor
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
            found[who] = _of_stream(plan, stage.pool, stream, brokers, members.beats())
            tell(f"{groups} x {size}, {who}", found[who])
            if kind == COORDINATOR:
                # Most of what runs is warm by now.
                again = plan._replace(warm_up_s=plan.warm_up_s / 5)
                beats = members.beats_together()
                found[who + TOGETHER] = _of_stream(again, stage.pool, stream, brokers, beats)
                tell(f"{groups} x {size}, {who + TOGETHER}", found[who + TOGETHER])
    found[BROKER] = _of_broker(plan, brokers)
    tell(f"{groups} x {size}, {BROKER}", found[BROKER])
    return found


def _of_stream(
    plan: Plan, pool: Executor, stream: Stream, brokers: BrokersGroups, beats: list[Beat]
) -> Figures:
    each = beats[0].members
    rate = _PER_SECOND / each
    flow(stream.load, beats, [Step(len(beats), rate, plan.warm_up_s)])
    before = stream.cpu_seconds(), brokers.cpu_seconds()
    (measured,) = flow(stream.load, beats, [Step(len(beats), rate, plan.seconds)])
    after = stream.cpu_seconds(), brokers.cpu_seconds()
    figures = _figures(ON_SCHEDULE, measured.answered * each, after[0] - before[0], after[1] - before[1])
    # Batches of that size are new to it.
    _drain(pool, stream, beats)
    end = time.monotonic() + plan.seconds
    broker_s, drained = brokers.cpu_seconds(), []
    while not drained or time.monotonic() < end:
        drained.append(_drain(pool, stream, beats))
    broker_s = brokers.cpu_seconds() - broker_s
    answered, stream_s = (sum(column) for column in zip(*drained, strict=True))
    return figures | _figures(AT_FULL_SPEED, answered * each, stream_s, broker_s)


def _drain(pool: Executor, stream: Stream, beats: list[Beat]) -> tuple[int, float]:
    """Give the stream a backlog; return how many records it has answered, and in how much CPU time, in s."""
    count = min(_BACKLOG, max(len(beats), _BACKLOG_BYTES // len(beats[0].request(0).value)))
    requests = [beats[number % len(beats)].request(number) for number in range(count)]
    with closing(Answers(stream.load)) as answers:
        with stream.paused():
            pool.submit(write_requests, stream.load, requests).result()
            begin_s = stream.cpu_seconds()
        answers.wait_for(count)
        end_s = stream.cpu_seconds()
        answers.read({request.request_id for request in requests})
    return count, end_s - begin_s


def _of_broker(plan: Plan, brokers: BrokersGroups) -> Figures:
    figures: Figures = {}
    brokers.flow(_PER_SECOND, plan.warm_up_s)
    for name, per_second in ((ON_SCHEDULE, _PER_SECOND), (AT_FULL_SPEED, None)):
        before = brokers.cpu_seconds()
        answered = brokers.flow(per_second, plan.seconds)
        figures |= _figures(name, answered, 0, brokers.cpu_seconds() - before)
    return figures


def _figures(name: str, beats: int, stream_s: float, broker_s: float) -> Figures:
    both = beats / (stream_s + broker_s)
    return {name: beats / stream_s if stream_s else both, name + _BOTH: both}
