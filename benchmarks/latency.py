"""Round trips through the coordinator, beside those through streams that do less.

A round trip is the time from the sending of a request to the arrival of its answer at a reader that
long-polls. Three loads:

* `heartbeat`: one at a time, the next is sent when the one before is answered. What a lonely member sees.
* `join, sync`: the one member of a group joins again and then syncs. Both together are one trip.
* `open loop`: heartbeats of many groups come on schedule, answered or not, and the time counts from when each
  was due. What members see of a busy coordinator.

Streams run one at a time (`benchmarks.streams`), in turn; each figure is the median of the rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from benchmarks.flow import Step, flow
from benchmarks.load import closed_loop, twin_loop
from benchmarks.members import Members
from benchmarks.report import medians_of, percentile, show, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR, NO_OP, PASS_THROUGH, STOCK_NO_OP

if TYPE_CHECKING:
    from pathlib import Path

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
        rounds = [
            {kind: _measure(stage, kind, plan, overrides) for kind in KINDS} for _ in range(plan.rounds)
        ]
    medians: dict[str, Figures] = medians_of(rounds)
    _print(plan, medians)
    write(file, {"plan": plan._asdict(), "settings": overrides, "medians_ms": medians, "rounds_ms": rounds})
    return medians


def _measure(stage: Stage, kind: str, plan: Plan, overrides: dict[str, str]) -> Figures:
    members = Members(plan.groups, 1)
    with stage.stream(kind, members, overrides) as stream:
        beats, load = members.beats(), stream.load
        # For the JVM's compiler.
        flow(load, beats, [Step(plan.groups, plan.per_second, plan.warm_up_s)])
        one = [beats[0].request(-number) for number in range(1, plan.requests + 1)]
        both = members.join_and_sync(plan.requests // 2)
        trips = {
            "heartbeat": stage.pool.submit(closed_loop, load, one).result(),
            "join, sync": stage.pool.submit(twin_loop, load, both).result(),
        }
        (open_loop,) = flow(load, members.beats()[1:], [Step(plan.groups - 1, plan.per_second, plan.seconds)])
    figures = {
        name: {f"p{percent}": percentile(values, percent) for percent in _PERCENTILES}
        for name, values in trips.items()
    }
    return figures | {f"{plan.per_second}/s": {"p50": open_loop.p50_ms, "p99": open_loop.p99_ms}}


def _print(plan: Plan, medians: dict[str, Figures]) -> None:
    rows = []
    for load, figures in medians[COORDINATOR].items():
        for name, ours in figures.items():
            beside = [medians[kind][load][name] for kind in KINDS]
            ratios = [f"{ours / medians[kind][load][name]:.2f}" for kind in (PASS_THROUGH, NO_OP)]
            rows.append([f"{load} {name}", *(f"{each:.0f}" for each in beside), *ratios])
    title = f"Round trips in ms (medians of {plan.rounds} rounds)"
    show(title, ["load", *KINDS, "to pass-through", "to no-op"], rows)
