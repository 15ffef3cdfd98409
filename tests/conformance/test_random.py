from __future__ import annotations

import asyncio
import random

import pytest

from tests.conformance.generator import random_sequence
from tests.conformance.runner import Runner

pytestmark = [pytest.mark.spark, pytest.mark.verify]

SEEDS = range(220)
SHRUNK = 2
SHRINK_S = 60


def test_both_do_the_same(addresses: dict[str, str]) -> None:
    asyncio.run(play_and_check(addresses))


async def play_and_check(addresses: dict[str, str]) -> None:
    failures = []

    def report(result) -> None:
        if result.verdict in ("different", "inconclusive"):
            failures.append(result)

    async with Runner(addresses) as runner:
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
