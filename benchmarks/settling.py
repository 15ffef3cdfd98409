"""How long groups of the consumer protocol take until they are at rest, beside the same members at a broker.

* `cold`: from the first join of all.
* `one more`: another one joins.
* `death`: of one member right after a heartbeat. Its session is 6 s.

They share a partition for each member, and one more. They are at rest when all are in one epoch, have all
partitions and each one at least, and nobody has anything to say. A newcomer is in the epoch of the others
before it has anything, since there is one assignment in a second at most. Members beat every 3 s, and at once
when they have something to say, as Kafka's clients do. The broker is Kafka 4.4. Both have the same settings.

`others`: how many members that were there before lost a partition or got one.
"""

from __future__ import annotations

import asyncio
import resource
import time
from contextlib import closing, suppress
from itertools import count
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from benchmarks.brokers import until_ready
from benchmarks.crowd import Consumer, connect, host_and_port
from benchmarks.gateways import Gateway
from benchmarks.report import beside, medians_of, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR

if TYPE_CHECKING:
    from pathlib import Path

BROKER, GATEWAY = "broker", "gateway"
_SESSION_MS, _INTERVAL_MS = 6_000, 3_000
_SETTINGS = {
    "group.consumer.session.timeout.ms": str(_SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(_INTERVAL_MS),
    "group.consumer.assignment.interval.ms": "1000",
}
_BOUNDS = {
    "group.consumer.min.session.timeout.ms": str(_SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(_INTERVAL_MS),
    "group.consumer.max.size": "5000",
}
"""A broker wants these, too."""
_WARM_UP = (30, 300)
_BACKOFF_S, _LOOK_S = 0.1, 0.02
_PATIENCE_S = 300
Figures = dict[str, float]
"""Seconds and members, by what has happened."""
_groups = count(1)


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    sizes: tuple[int, ...]


def run(plan: Plan, file: Path | None) -> dict[int, dict[str, Figures]]:
    """Measure, print and write; return the medians by size, and by who was asked."""
    with (
        Stage(broker=_SETTINGS | _BOUNDS, jars="broker-4.4") as stage,
        stage.stream(COORDINATOR, settings=_SETTINGS) as stream,
    ):
        broker = stage.broker.bootstrap_servers
        asyncio.run(until_ready(broker))
        with closing(KafkaAdminClient(bootstrap_servers=broker)) as admin:
            admin.create_topics([NewTopic(f"of-{size}", size + 1, 1) for size in {*plan.sizes, *_WARM_UP}])
        with Gateway(broker, stream, stage.directory) as gateway:
            addresses = {GATEWAY: gateway.address, BROKER: broker}

            def measure(size: int) -> dict[str, Figures]:
                found = {}
                for who, address in addresses.items():
                    with stage.turn(None if who == BROKER else stream):
                        group_id = f"settling-{next(_groups)}-{size}"
                        found[who] = stage.pool.submit(measure_changes, address, group_id, size).result()
                tell(f"{size} members", found)
                return found

            for size in _WARM_UP:
                measure(size)
            rounds = [{size: measure(size) for size in plan.sizes} for _ in range(plan.rounds)]
    medians: dict[int, dict[str, Figures]] = medians_of(rounds)
    title = f"Seconds until all are at rest, and others that it moves (medians of {plan.rounds} rounds)"
    show(title, ["", BROKER, GATEWAY, "ratio"], beside(medians, BROKER, GATEWAY))
    write(file, {"plan": plan._asdict(), "medians": medians, "rounds": rounds})
    return medians


def measure_changes(address: str, group_id: str, size: int) -> Figures:
    """Measure a group of `size` members at a broker or gateway, with one more and then one less."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return asyncio.run(_story(address, group_id, size))


async def _story(address: str, group_id: str, size: int) -> Figures:
    connections = await connect(host_and_port(address), size + 1)
    *consumers, newcomer = (Consumer(group_id, f"of-{size}", each) for each in connections)
    async with asyncio.timeout(_PATIENCE_S), asyncio.TaskGroup() as tasks:
        group = _Group(size + 1)

        def begin(each: Consumer) -> None:
            group.members[each] = tasks.create_task(_live(each, len(group.members)))

        since_s = time.perf_counter()
        for each in consumers:
            begin(each)
        figures = {"cold": await group.at_rest(since_s)}
        before, since_s = group.owned(), time.perf_counter()
        begin(newcomer)
        figures["one more"] = await group.at_rest(since_s)
        figures["one more: others"] = group.moved(before)
        before = group.owned()
        dying = group.last_heard()
        since_s = time.perf_counter()
        task = group.members.pop(dying)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        figures["death"] = await group.at_rest(since_s)
        figures["death: others"] = group.moved(before)
        for each_task in group.members.values():
            each_task.cancel()
    for connection in connections:
        connection.close()
    return figures


async def _live(member: Consumer, number: int) -> None:
    """Beat for ever."""
    # They join together, but do not beat together ever after: how long one waits for what another gives up
    # would be 0 or 3 s, by chance.
    pause_s = Random(number).random() * _INTERVAL_MS / 1_000
    while True:
        await member.come_further()
        member.heard_s = time.perf_counter()
        if member.says_all:
            await asyncio.sleep(_BACKOFF_S)
        elif not member.has_news:
            await asyncio.sleep(pause_s)
            pause_s = _INTERVAL_MS / 1_000


class _Group:
    """The members of one group, each a task, and how many partitions they share."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self.members: dict[Consumer, asyncio.Task[None]] = {}

    async def at_rest(self, since_s: float) -> float:
        """Wait until all have what they are to have; return the seconds since."""
        while not self._is_at_rest():  # noqa: ASYNC110 - an event for each answer would cost the members more
            await asyncio.sleep(_LOOK_S)
        return time.perf_counter() - since_s

    def _is_at_rest(self) -> bool:
        epochs = {each.epoch for each in self.members}
        has_news = any(each.has_news for each in self.members)
        sizes = [len(each.owned) for each in self.members]
        return len(epochs) == 1 and not has_news and min(sizes) > 0 and sum(sizes) == self._partitions

    def owned(self) -> dict[Consumer, frozenset[int]]:
        """The partitions of each."""
        return {each: each.owned for each in self.members}

    def moved(self, before: dict[Consumer, frozenset[int]]) -> int:
        """How many of those that are left have others than before."""
        return sum(each.owned != before[each] for each in self.members if each in before)

    def last_heard(self) -> Consumer:
        """The one whose heartbeat was answered last."""
        return max(self.members, key=lambda each: each.heard_s)
