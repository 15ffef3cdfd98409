"""Plays sequences against the brokers they are for."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, Self

from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.deploy.jars import fetch
from tests.conformance.consumer.client import ConsumerClient
from tests.conformance.consumer.differences import Known
from tests.conformance.consumer.driver import play
from tests.conformance.consumer.setups import SETUPS
from tests.conformance.consumer.topics import make_topics
from tests.conformance.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from tests.conformance.consumer.differences import KnownDifference
    from tests.conformance.consumer.game import Result
    from tests.conformance.consumer.sequence import Sequence
    from tests.conformance.consumer.topics import Topic

__all__ = ["CONCURRENCY", "JARS", "Broker", "Runner", "start_brokers"]

JARS = "broker-4.4"
CONCURRENCY = 6
_TRIES = 6


class Broker(NamedTuple):
    """Where a broker is, and what topics it has."""

    address: str
    topics: dict[str, Topic]


def start_brokers(
    stack: ExitStack, directory: Path, setups: Iterable[str] = tuple(SETUPS)
) -> dict[str, Broker]:
    """Start a broker with topics for each of `setups`, to be stopped by `stack`."""
    brokers = {
        name: EmbeddedBroker(directory / name, overrides=SETUPS[name].broker, jars=JARS) for name in setups
    }
    for broker in brokers.values():
        stack.callback(broker.stop)
    fetch(JARS, progress=True)  # once for all
    with ThreadPoolExecutor() as pool:
        return dict(zip(brokers, pool.map(_start, brokers.values()), strict=True))


def _start(broker: EmbeddedBroker) -> Broker:
    broker.start()
    return Broker(broker.bootstrap_servers, make_topics(broker.bootstrap_servers))


class Runner:
    """Plays sequences, and counts."""

    def __init__(self, brokers: Mapping[str, Broker], concurrency: int = CONCURRENCY) -> None:
        self._brokers = brokers
        self._clients = {name: ConsumerClient(broker.address) for name, broker in brokers.items()}
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        # The groups of another run may still be there.
        self._run, self._numbers = uuid.uuid4().hex[:8], itertools.count()
        self.counts: Counter[str] = Counter()
        """Of sequences by verdict, of known differences by name, and of `inconclusive runs`."""
        self.steps = 0
        """How many steps both have played alike."""
        self.answered: Counter[tuple[str, str, str]] = Counter()
        """How often: group's state before, API, kind of answer."""

    async def __aenter__(self) -> Self:
        for client in self._clients.values():
            await client.wait_until_ready()
        return self

    async def __aexit__(self, *error: object) -> None:
        for client in self._clients.values():
            client.close()

    async def run(self, sequence: Sequence, shows: KnownDifference | None = None) -> Result:
        """Play `sequence`, again if the machine may have been held up: a difference is one that stays.

        Of the known differences only `shows` counts.
        """
        async with self._slots:
            for _ in range(_TRIES):
                result = await self._play(sequence, shows)
                if result.verdict != "inconclusive" and not _may_be_late(result):
                    break
                self.counts["inconclusive runs"] += 1
        self.counts[result.verdict] += 1
        if result.verdict == "known":
            self.counts[f"known: {result.reason}"] += 1
        return result

    async def _play(self, sequence: Sequence, shows: KnownDifference | None) -> Result:
        broker, client = self._brokers[sequence.setup], self._clients[sequence.setup]
        group_id = f"{self._run}-{next(self._numbers)}"
        result = await play(sequence, client, broker.topics, group_id, Known(shows))
        self.steps += len(result.moves)
        self.answered += result.answered
        return result

    async def run_all(
        self,
        sequences: Iterable[Sequence],
        until: float | None = None,
        report: Callable[[Result], None] = print,
    ) -> None:
        """Play `sequences`, as many at a time as there are slots, until `time.monotonic()` is `until`."""
        source = iter(sequences)

        async def work() -> None:
            for sequence in source:
                if until is not None and time.monotonic() >= until:
                    return
                report(await self.run(sequence))

        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(work())

    async def shrink(self, result: Result) -> Result:
        """The result of the smallest sequence found that differs in the same way."""
        assert result.difference is not None
        kind = result.difference.kind
        results = {}

        async def differs(sequence: Sequence) -> bool:
            found = results[sequence] = await self.run(sequence)
            difference = found.difference
            return found.verdict == "different" and difference is not None and difference.kind == kind

        smallest = await shrink(result.sequence, differs)
        return results.get(smallest, result)


def _may_be_late(result: Result) -> bool:
    """Whether a difference may be the machine's: where sessions end soon, a broker may be held up."""
    return result.verdict == "different" and SETUPS[result.sequence.setup].ends_soon
