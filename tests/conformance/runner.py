"""Plays many sequences at a time, against the brokers they are for."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Self

from kafka.admin import KafkaAdminClient

from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.deploy.jars import fetch
from tests.conformance.differences import Known
from tests.conformance.driver import play
from tests.conformance.sequence import PARTITIONS, TOPICS
from tests.conformance.setups import SETUPS
from tests.conformance.shrink import shrink
from tests.conformance.wire import BrokerClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from pathlib import Path

    from tests.conformance.differences import KnownDifference
    from tests.conformance.game import Result
    from tests.conformance.sequence import Sequence

CONCURRENCY = 24
_TRIES = 6


def start_brokers(stack: ExitStack, directory: Path, setups: Iterable[str] = tuple(SETUPS)) -> dict[str, str]:
    """Start a broker with `TOPICS` for each of `setups`, to be stopped by `stack`; return their addresses."""
    brokers = {name: EmbeddedBroker(directory / name, overrides=SETUPS[name].broker) for name in setups}
    for broker in brokers.values():
        stack.callback(broker.stop)
    fetch("broker", progress=True)  # once for all
    with ThreadPoolExecutor() as pool:
        list(pool.map(_start, brokers.values()))
    return {name: broker.bootstrap_servers for name, broker in brokers.items()}


def _start(broker: EmbeddedBroker) -> None:
    broker.start()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics({topic: {"num_partitions": PARTITIONS} for topic in TOPICS})
    admin.close()


class Runner:
    """Plays sequences, and counts. `connect` makes the client of an address."""

    def __init__(
        self,
        addresses: Mapping[str, str],
        concurrency: int = CONCURRENCY,
        connect: Callable[[str], BrokerClient] = BrokerClient,
        known: Callable[[KnownDifference | None], Known] = Known,
    ) -> None:
        self._clients = {name: connect(address) for name, address in addresses.items()}
        self._known = known
        self._watchers: list[asyncio.Task[None]] = []
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._numbers = itertools.count()
        self._nameless = {name: asyncio.Lock() for name in addresses}
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

    async def run(
        self, sequence: Sequence, shows: KnownDifference | None = None, partition: int = 0
    ) -> Result:
        """Play `sequence`, again if the machine was held up; a result that stays open is `inconclusive`.

        Of the known differences only `shows` counts.
        """
        kinds = set()
        async with self._slots:
            for _ in range(_TRIES):
                async with self._group_id(sequence) as group_id:
                    client = self._clients[sequence.setup]
                    result = await play(sequence, client, group_id, self._known(shows), partition)
                self.comparisons += result.comparisons
                self.answered += result.answered
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

    @asynccontextmanager
    async def _group_id(self, sequence: Sequence) -> AsyncIterator[str]:
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


async def _cancelled(task: asyncio.Task[None]) -> None:
    with suppress(asyncio.CancelledError):
        await task
