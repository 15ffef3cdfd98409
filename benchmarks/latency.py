"""Round trips through the coordinator, beside those through streams that do less.

A round trip is the time from the sending of a request to the arrival of its answer at a reader that
long-polls. Three loads:

* `heartbeat`: one at a time, the next is sent when the one before is answered. What a lonely member sees.
* `join, sync`: the one member of a group joins again and then syncs. Both together are one trip.
* `open loop`: heartbeats of many groups come on schedule, answered or not, and the time counts from when each
  was due. What members see of a busy coordinator.

The streams (`benchmarks.streams`) take turns; each figure is the median of the rounds.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.flow import LEAD_S, Step, flow
from benchmarks.load import closed_loop, twin_loop
from benchmarks.members import Members
from benchmarks.report import medians_of, percentile, ratios_to, show, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR, NO_OP, PASS_THROUGH, STOCK_NO_OP

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streams import Stream

KINDS = (PASS_THROUGH, STOCK_NO_OP, NO_OP, COORDINATOR)
_PERCENTILES = (50, 99)
Figures = dict[str, dict[str, float]]
"""By load, the percentiles of its round trips in ms."""


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    warm_up_s: int
    requests: int
    """Of those that come one at a time."""
    groups: int
    per_second: int
    seconds: int
    """Of the open loop."""


def run(plan: Plan, overrides: dict[str, str], file: Path | None) -> dict[str, Figures]:
    """Measure, print and write; return the medians by stream."""
    with Stage() as stage:
        rounds = _rounds(stage, plan, overrides)
    medians: dict[str, Figures] = medians_of(rounds)
    ratios = {kind: ratios_to(kind, rounds)[COORDINATOR] for kind in (PASS_THROUGH, NO_OP)}
    figures = {"medians_ms": medians, "coordinator_to": ratios, "rounds_ms": rounds}
    write(file, {"plan": plan._asdict(), "settings": overrides, **figures})
    _print(plan, medians, ratios)
    return medians


def _rounds(stage: Stage, plan: Plan, overrides: dict[str, str]) -> list[dict[str, Figures]]:
    with ExitStack() as stack:
        streams = {}
        for kind in KINDS:
            members = Members(plan.groups, 1)
            stream = stack.enter_context(stage.stream(kind, members, overrides))
            with stage.turn(stream):
                flow(stream.load, members.beats(), Step(plan.groups, plan.per_second, plan.warm_up_s))
            streams[kind] = stream, members
        return [
            {kind: _measure(stage, plan, *each) for kind, each in streams.items()} for _ in range(plan.rounds)
        ]


def _measure(stage: Stage, plan: Plan, stream: Stream, members: Members) -> Figures:
    beats, load = members.beats(), stream.load
    one = [beats[0].request(-number) for number in range(1, plan.requests + 1)]
    both = members.join_and_sync(plan.requests // 2)
    with stage.turn(stream):
        flow(load, beats, Step(plan.groups, plan.per_second, LEAD_S))
        trips = {
            "heartbeat": stage.pool.submit(closed_loop, load, one).result(),
            "join, sync": stage.pool.submit(twin_loop, load, both).result(),
        }
        open_loop = flow(load, beats[1:], Step(plan.groups - 1, plan.per_second, plan.seconds))
    figures = {
        name: {f"p{percent}": percentile(values, percent) for percent in _PERCENTILES}
        for name, values in trips.items()
    }
    return figures | {f"{plan.per_second}/s": {"p50": open_loop.p50_ms, "p99": open_loop.p99_ms}}


def _print(plan: Plan, medians: dict[str, Figures], ratios: dict[str, Figures]) -> None:
    rows = [
        [
            f"{load} {name}",
            *(f"{medians[kind][load][name]:.0f}" for kind in KINDS),
            *(f"{of[load][name]:.2f}" for of in ratios.values()),
        ]
        for load, figures in medians[COORDINATOR].items()
        for name in figures
    ]
    title = f"Round trips in ms (medians of {plan.rounds} rounds)"
    show(title, ["load", *KINDS, *(f"to {kind}" for kind in ratios)], rows)
