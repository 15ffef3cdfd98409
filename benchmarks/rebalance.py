"""How long a group takes until all its members are Stable, beside the same members with the broker.

* `cold`: from the first join. Both coordinators wait 3 s for further members, and once more if some came.
* `leave`: of one member, until all others are Stable again. They hear of it when they beat, every 3 s.
* `death`: of one member right after a heartbeat, likewise. Its session is 6 s.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.brokers import until_ready
from benchmarks.protocols import NONE, REBALANCE_IN_PROGRESS, ByProtocol, ByTopics
from benchmarks.report import beside, medians_of, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.load import Load
    from benchmarks.protocols import Coordinator, Line

BROKER = "broker"
COLD, _LEAVE, _DEATH = "cold", "leave", "death"
CHANGES = (_LEAVE, _DEATH)
_INTERVAL_S = 3.0
_DELAY_MS = 3_000
_WARM_UP = (30, 300)
_PATIENCE_S = 300
Figures = dict[str, float]
"""Seconds, by what has happened."""


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    sizes: tuple[int, ...]


def run(plan: Plan, file: Path | None) -> dict[int, dict[str, Figures]]:
    """Measure, print and write; return the medians by size and coordinator."""
    delay = {"group.initial.rebalance.delay.ms": _DELAY_MS}
    with (
        Stage(broker={name: str(value) for name, value in delay.items()}) as stage,
        stage.stream(COORDINATOR, settings=delay) as stream,
    ):
        whom: dict[str, Load | str] = {COORDINATOR: stream.load, BROKER: stage.broker.bootstrap_servers}
        asyncio.run(until_ready(stage.broker.bootstrap_servers))

        def measure(name: str, size: int) -> dict[str, Figures]:
            found = {
                who: stage.pool.submit(measure_changes, where, f"{name}-{size}", size).result()
                for who, where in whom.items()
            }
            tell(f"{name}, {size} members", found)
            return found

        for size in _WARM_UP:
            measure("warm-up", size)
        rounds = [
            {size: measure(f"round-{number}", size) for size in plan.sizes} for number in range(plan.rounds)
        ]
    medians: dict[int, dict[str, Figures]] = medians_of(rounds)
    title = f"Seconds until all are Stable (medians of {plan.rounds} rounds)"
    show(title, ["", BROKER, COORDINATOR, "ratio"], beside(medians, BROKER, COORDINATOR))
    write(file, {"plan": plan._asdict(), "medians_s": medians, "rounds_s": rounds})
    return medians


def measure_changes(
    where: Load | str, group_id: str, size: int, changes: tuple[str, ...] = CHANGES
) -> Figures:
    """How long a group of `size` members takes from its first join, and after each of the `changes`.

    `where`: the topics of a stream, or the address of a broker or gateway.
    """
    coordinator = ByProtocol(where) if isinstance(where, str) else ByTopics(where)
    return asyncio.run(_story(coordinator, group_id, size, changes))


async def _story(coordinator: Coordinator, group_id: str, size: int, changes: tuple[str, ...]) -> Figures:
    async with coordinator, asyncio.timeout(_PATIENCE_S), asyncio.TaskGroup() as tasks:
        lines = [coordinator.line(group_id) for _ in range(size)]
        group = _Group(lines)
        members = {number: tasks.create_task(group.live(number)) for number in range(size)}
        figures = {COLD: await group.all_stable(size, time.perf_counter())}
        for name in changes:
            one = await group.beaten(len(members))
            since = time.perf_counter()
            members.pop(one).cancel()
            if name == _LEAVE:
                _expect(await lines[one].leave(), NONE)
            figures[name] = await group.all_stable(len(members), since)
        for task in members.values():
            task.cancel()
    return figures


class _Group:
    """The members of one group, each a task."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines
        self._changed = asyncio.Condition()
        self._beats = 0
        self._stable: Counter[int] = Counter()
        """By generation, how many of its members have an assignment."""
        self._sizes: dict[int, int] = {}
        """By generation, how many members it has, as its leader was told."""
        self._last = -1

    async def live(self, number: int) -> None:
        line = self._lines[number]
        # They were told of the generation together, but do not beat together ever after: how long the others
        # take to hear of a death would be 0 or 3 s, by chance.
        phase = Random(number).random()
        while True:
            joined = await line.join()
            if _expect(joined.error, NONE, REBALANCE_IN_PROGRESS) == REBALANCE_IN_PROGRESS:
                continue
            if _expect(await line.sync(joined), NONE, REBALANCE_IN_PROGRESS) == REBALANCE_IN_PROGRESS:
                continue
            async with self._changed:
                self._stable[joined.generation_id] += 1
                if joined.is_leader:
                    self._sizes[joined.generation_id] = len(joined.member_ids)
                self._changed.notify_all()
            pause_s = phase * _INTERVAL_S
            while True:
                await asyncio.sleep(pause_s)
                pause_s = _INTERVAL_S
                beaten = _expect(await line.beat(joined), NONE, REBALANCE_IN_PROGRESS)
                if beaten == REBALANCE_IN_PROGRESS:
                    break
                async with self._changed:
                    self._beats += 1
                    if not joined.is_leader:
                        self._last = number
                    self._changed.notify_all()

    async def all_stable(self, count: int, since: float) -> float:
        """Wait until there is a generation of `count` that all of them are in; return the seconds since."""

        def are_stable() -> bool:
            newest = max(self._stable, default=None)
            return newest is not None and self._stable[newest] == self._sizes.get(newest) == count

        async with self._changed:
            await self._changed.wait_for(are_stable)
        return time.perf_counter() - since

    async def beaten(self, count: int) -> int:
        """Wait for `count` heartbeats that are answered; return who sent the last of them.

        Not the leader, which has more to do: that it is another one is no part of this.
        """
        async with self._changed:
            until = self._beats + count
            await self._changed.wait_for(lambda: self._beats >= until)
        return self._last


def _expect(error: str, *expected: str) -> str:
    if error not in expected:
        raise RuntimeError(f"answered with {error}")
    return error
