"""What a batch takes whose checkpoint is on an S3 server, near and far, beside one on the disk.

Coordinators with the same load, which is light, take turns. The way to the server is `SlowStore`.
"""

from __future__ import annotations

import os
import statistics
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from benchmarks.batches import Window
from benchmarks.flow import LEAD_S, Step, flow
from benchmarks.members import Members
from benchmarks.report import show, write
from benchmarks.slow_store import SlowStore
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR
from tests.storage.s3 import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.streams import Stream

_DISK = "disk"
_GROUPS = 20


class Plan(NamedTuple):
    """How much of what. `delays_ms`: added to each call."""

    rounds: int
    delays_ms: tuple[int, ...]
    per_second: float
    warm_up_s: float
    seconds: float
    settings: dict[str, str]


class Figures(NamedTuple):
    """Of a round. Batches are those that end in it, calls are divided by them."""

    batch_ms: float
    p50_ms: float
    p99_ms: float
    batches_per_second: float
    calls: float
    cpu_percent: float


class _Way(NamedTuple):
    """A coordinator, and the way to its checkpoint."""

    stream: Stream
    store: SlowStore | None
    members: Members


def run(plan: Plan, file: Path | None) -> dict[str, Figures]:
    """Measure, print and write; return the medians by way."""
    with Stage() as stage, ExitStack() as stack:
        ways = dict(_ways(stage, stack, plan))
        rounds = [
            {name: _measure(stage, way, plan) for name, way in ways.items()} for _ in range(plan.rounds)
        ]
        by_kind = {name: dict(way.store.calls) for name, way in ways.items() if way.store}
    medians = {
        name: Figures(*map(statistics.median, zip(*(each[name] for each in rounds), strict=True)))
        for name in ways
    }
    show(
        f"A trickle of {plan.per_second:g} heartbeats a second (medians of {plan.rounds} rounds)",
        ["", "batch ms", "answer p50 ms", "p99", "batches/s", "calls/batch", "% of a core"],
        [[name, *(f"{value:.3g}" for value in it)] for name, it in medians.items()],
    )
    write(
        file,
        {
            "plan": plan._asdict(),
            "medians": {name: it._asdict() for name, it in medians.items()},
            "rounds": [{name: it._asdict() for name, it in each.items()} for each in rounds],
            "calls": by_kind,
        },
    )
    return medians


def _ways(stage: Stage, stack: ExitStack, plan: Plan) -> Iterator[tuple[str, _Way]]:
    server = stack.enter_context(ObjectStore(stage.directory / "store"))
    os.environ.update(server.environment)
    port = urlsplit(server.address).port
    assert port is not None
    for delay_ms in (None, *plan.delays_ms):
        settings, store = dict(plan.settings), None
        if delay_ms is not None:
            store = stack.enter_context(SlowStore(port, delay_ms))
            settings |= server.settings(f"http://127.0.0.1:{store.port}")
            settings["checkpoint"] = f"{server.root}/{delay_ms}"
        members = Members(_GROUPS, 1)
        stream = stack.enter_context(stage.stream(COORDINATOR, members, settings))
        with stage.turn(stream):
            flow(stream.load, members.beats(), Step(_GROUPS, plan.per_second, plan.warm_up_s))
        yield _DISK if delay_ms is None else f"S3, {delay_ms} ms", _Way(stream, store, members)


def _measure(stage: Stage, way: _Way, plan: Plan) -> Figures:
    stream, beats = way.stream, way.members.beats()
    with stage.turn(stream):
        flow(stream.load, beats, Step(_GROUPS, plan.per_second, LEAD_S))
        calls = way.store.calls.total() if way.store else 0
        cpu, window = stream.cpu_seconds(), Window(stream)
        measured = flow(stream.load, beats, Step(_GROUPS, plan.per_second, plan.seconds))
        batches = window.batches()
        spent = stream.cpu_seconds() - cpu
        more = way.store.calls.total() - calls if way.store else 0
    return Figures(
        batch_ms=batches.mean_ms,
        p50_ms=measured.p50_ms,
        p99_ms=measured.p99_ms,
        batches_per_second=batches.count / plan.seconds,
        calls=more / batches.count if batches.count else float("nan"),
        cpu_percent=100 * spent / plan.seconds,
    )
