"""Plays many sequences at a time, against the brokers they are for."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.deploy.jars import fetch
from tests.conformance.differences import Known
from tests.conformance.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from pathlib import Path

    from tests.conformance.differences import KnownDifference
    from tests.conformance.game import Game, Result, Topic
    from tests.conformance.sequence import Sequence
    from tests.conformance.wire import BrokerClient

__all__ = ["Broker", "Runner", "start_brokers"]

_TRIES = 6


class Broker(NamedTuple):
    """Where a broker is, and what a game has to know of its topics."""

    address: str
    topics: Mapping[str, Topic] = {}


def start_brokers(
    stack: ExitStack, game: type[Game], directory: Path, setups: Iterable[str] = ()
) -> dict[str, Broker]:
    """Start a broker with topics for each of `setups`, by default all, to be stopped by `stack`."""
    brokers = {
        name: EmbeddedBroker(directory / name, overrides=game.setups[name].broker, jars=game.jars)
        for name in setups or game.setups
    }
    for broker in brokers.values():
        stack.callback(broker.stop)
    fetch(game.jars, progress=True)  # once for all

    def start(broker: EmbeddedBroker) -> Broker:
        broker.start()
        return Broker(broker.bootstrap_servers, game.make_topics(broker.bootstrap_servers))

    with ThreadPoolExecutor() as pool:
        return dict(zip(brokers, pool.map(start, brokers.values()), strict=True))


class Runner:
    """Plays sequences of a game, so many at a time, and counts.

    `connect` makes the client of an address, `known` says what does not count where a difference shows.
    """

    def __init__(
        self,
        game: type[Game],
        brokers: Mapping[str, Broker],
        at_a_time: int,
        connect: Callable[[str], BrokerClient] | None = None,
        known: Callable[[KnownDifference | None], Known] | None = None,
    ) -> None:
        self._game, self._brokers = game, brokers
        connect = connect or game.client
        self._clients = {name: connect(broker.address) for name, broker in brokers.items()}
        self._known = known or (lambda shows: Known(game.differences, shows))
        self._watchers: list[asyncio.Task[None]] = []
        self._at_a_time = at_a_time
        self._slots = asyncio.Semaphore(self._at_a_time)
        self._numbers = itertools.count()
        self._nameless = {name: asyncio.Lock() for name in brokers}
        # The groups of another run may still be there.
        self._run = uuid.uuid4().hex[:8]
        self.counts: Counter[str] = Counter()
        """Of sequences by verdict, of known differences by name, and of `inconclusive runs`."""
        self.comparisons = 0
        self.answered: Counter[tuple[str, str, int]] = Counter()
        """How often: group's state before, API, error code."""

    async def __aenter__(self) -> Self:
        for client in self._clients.values():
            await client.wait_until_ready()
            self._watchers.append(asyncio.create_task(client.watch()))
        return self

    async def __aexit__(self, *error: object) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        # One that has failed is reported here.
        await asyncio.gather(*(_cancelled(watcher) for watcher in self._watchers))
        for client in self._clients.values():
            client.close()

    @property
    def requests(self) -> int:
        """How many requests have been sent."""
        return sum(client.requests for client in self._clients.values())

    async def run(self, sequence: Sequence[Any], shows: KnownDifference | None = None) -> Result:
        """Play `sequence`, again if the machine was held up; a result that stays open is `inconclusive`.

        Of the known differences only `shows` counts.
        """
        kinds = set()
        async with self._slots:
            for _ in range(_TRIES):
                result = await self._play(sequence, shows)
                if result.verdict != "inconclusive":
                    break
                self.counts["inconclusive runs"] += 1
                kinds.add(result.difference.kind if result.difference else None)
        if result.verdict == "inconclusive" and None not in kinds and len(kinds) == 1:
            # It may have been the machine once, but hardly each time in the same way.
            result.verdict = "different"
        self.counts[result.verdict] += 1
        if result.verdict == "known":
            self.counts[f"known: {result.reason}"] += 1
        return result

    async def _play(self, sequence: Sequence[Any], shows: KnownDifference | None) -> Result:
        broker, client = self._brokers[sequence.setup], self._clients[sequence.setup]
        async with self._group_id(sequence) as group_id:
            start_ms = client.clock.now_ms()
            game = self._game(sequence, self._known(shows), broker.topics, group_id, start_ms)
            with game.judged():
                await game.play(client)
        self.comparisons += game.result.comparisons
        self.answered += game.result.answered
        return game.result

    @asynccontextmanager
    async def _group_id(self, sequence: Sequence[Any]) -> AsyncIterator[str]:
        """The id of a group that is not there yet, for `sequence` alone."""
        if not sequence.nameless:
            yield f"{self._run}-{next(self._numbers)}"
            return
        # There is but one group without an id.
        async with self._nameless[sequence.setup]:
            await self._clients[sequence.setup].delete("")
            yield ""

    async def run_all(
        self,
        sequences: Iterable[Sequence[Any]],
        until: float | None = None,
        report: Callable[[Result], None] = lambda _result: None,
    ) -> list[Result]:
        """Play `sequences`, as many at a time as there are slots, until `time.monotonic()` is `until`.

        Returns those in which a difference was found, or may have been.
        """
        source = iter(sequences)
        failures: list[Result] = []

        async def work() -> None:
            for sequence in source:
                if until is not None and time.monotonic() >= until:
                    return
                result = await self.run(sequence)
                if result.verdict in ("different", "inconclusive"):
                    failures.append(result)
                report(result)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._at_a_time):
                group.create_task(work())
        return failures

    async def shrink(self, result: Result, limit_s: float | None = None) -> str:
        """Tell of the smallest sequence found that differs as `result` does, if there is time to find it."""
        if result.verdict != "different" or result.difference is None:
            return str(result)
        kind = result.difference.kind
        results = {}

        async def differs(sequence: Sequence[Any]) -> bool:
            found = results[sequence] = await self.run(sequence)
            difference = found.difference
            return found.verdict == "different" and difference is not None and difference.kind == kind

        try:
            async with asyncio.timeout(limit_s):
                smallest = await shrink(result.sequence, differs)
        except TimeoutError:
            return f"{result}\n(there was no time to make it smaller)"
        return str(results.get(smallest, result))


async def _cancelled(task: asyncio.Task[None]) -> None:
    with suppress(asyncio.CancelledError):
        await task
