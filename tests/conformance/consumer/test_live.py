"""Live brokers and the core, in scripts and in sequences that are drawn."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from tests.conformance.consumer.generator import random_sequence
from tests.conformance.consumer.recorded import PLAYED, SHOWN, complaint
from tests.conformance.consumer.runner import Broker, Runner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.conformance.consumer.game import Result

pytestmark = [pytest.mark.spark, pytest.mark.verify]

SEEDS = range(300)
SHRUNK = 2
SHRINK_S = 60


def play(brokers: dict[str, Broker], names: Iterable[str]) -> dict[str, str]:
    """Return what is wrong with each of the scripts, empty if nothing is."""

    async def play_all() -> dict[str, str]:
        async with Runner(brokers) as runner:
            async with asyncio.TaskGroup() as group:
                tasks = {name: group.create_task(runner.run(PLAYED[name], SHOWN.get(name))) for name in names}
            return {name: complaint(name, task.result()) for name, task in tasks.items()}

    return asyncio.run(play_all())


@pytest.fixture(scope="module")
def results(brokers: dict[str, Broker]) -> dict[str, str]:
    return play(brokers, PLAYED)


# With tests/coordinator_state/consumer/test_recorded.py this shows that the records still hold.
@pytest.mark.parametrize("name", PLAYED)
def test_live_brokers_do_what_the_core_does_in_all_scripts(results: dict[str, str], name: str) -> None:
    assert not results[name], results[name]


def test_both_do_the_same(brokers: dict[str, Broker]) -> None:
    asyncio.run(play_and_check(brokers))


async def play_and_check(brokers: dict[str, Broker]) -> None:
    failures: list[Result] = []

    def report(result: Result) -> None:
        if result.verdict in ("different", "inconclusive"):
            failures.append(result)

    async with Runner(brokers) as runner:
        await runner.run_all((random_sequence(random.Random(seed)) for seed in SEEDS), report=report)
        told = [str(failure) for failure in failures]
        for place, failure in enumerate(failures[:SHRUNK]):
            if failure.verdict == "different":
                try:
                    async with asyncio.timeout(SHRINK_S):
                        told[place] = str(await runner.shrink(failure))
                except TimeoutError:
                    told[place] += "\n(there was no time to make it smaller)"

    assert not failures, "\n\n".join(told)
    # Most of them are to be compared to their ends.
    assert runner.counts["same"] > 0.7 * len(SEEDS), runner.counts
