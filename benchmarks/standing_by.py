"""Whether a standby takes a coordinator for dead that has all the work it can do.

The load writes heartbeats as fast as they are answered, for as long as asked, with a standby beside it on the
same machine.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.coordinators import RUNNING, TAKES_OVER, WARM, coordinators
from benchmarks.load import Answers, write_requests
from benchmarks.members import Members
from benchmarks.report import show, write
from benchmarks.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.load import Load
    from benchmarks.members import Beat

_AT_ONCE = 20_000
"""So many heartbeats wait to be answered, at most."""
_ANEW = "restarting the query"
_TOGETHER = {"group.initial.rebalance.delay.ms": "3000"}
"""So that all members of a group are in one join phase."""


class Plan(NamedTuple):
    """How much of what."""

    minutes: float
    groups: int
    size: int
    settings: dict[str, str]


def run(plan: Plan, file: Path | None) -> dict[str, float]:
    """Measure, print and write; return what has happened."""
    members = Members(plan.groups, plan.size)
    with Stage() as stage, ExitStack() as stack:
        make = coordinators(stage, _TOGETHER | plan.settings)
        running = stack.enter_context(make())
        running.await_line(RUNNING)
        members.form(stage.pool, running.load)
        standby = stack.enter_context(make("--standby"))
        standby.await_line(WARM)
        answered, longest_s = stage.pool.submit(
            _answered, running.load, members.beats(), plan.minutes * 60
        ).result()
        figures: dict[str, float] = {
            "minutes": plan.minutes,
            "heartbeats": answered,
            "a second": answered / plan.minutes / 60,
            f"longest time for {_AT_ONCE:,} of them, s": longest_s,
            "times that the standby took over": _times(standby.said, TAKES_OVER),
            "times that the query began anew": _times(running.said, _ANEW),
        }
    show(
        "A standby beside a coordinator at full speed",
        ["", ""],
        [[k, f"{v:,.1f}"] for k, v in figures.items()],
    )
    write(file, {"plan": plan._asdict(), "figures": figures})
    return figures


def _times(said: list[tuple[float, str]], words: str) -> int:
    return sum(words in line for _, line in said)


def _answered(load: Load, beats: list[Beat], seconds: float) -> tuple[int, float]:
    """Write and wait again and again; how many were answered, and how long the longest time took, in s."""
    answered, longest_s = 0, 0.0
    until = time.monotonic() + seconds
    while (begin := time.monotonic()) < until:
        some = range(answered, answered + _AT_ONCE)
        with closing(Answers(load)) as answers:
            write_requests(load, [beats[number % len(beats)].request(number) for number in some])
            answers.wait_for(_AT_ONCE)
        answered += _AT_ONCE
        longest_s = max(longest_s, time.monotonic() - begin)
    return answered, longest_s
