from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from tests.conformance.differences import DIFFERENCES
from tests.conformance.runner import Runner
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.conformance.differences import KnownDifference
    from tests.conformance.driver import Result
    from tests.conformance.sequence import Sequence

pytestmark = pytest.mark.spark


# Some of them have to be in time for a deadline.
AT_A_TIME = 5


async def conclude(runner: Runner, sequence: Sequence, shows: KnownDifference | None = None) -> Result:
    """Play it until the machine was not held up meanwhile, for some time."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        result = await runner.run(sequence, shows=shows)
        if result.verdict != "inconclusive" or time.monotonic() > deadline:
            return result


@pytest.fixture(scope="module")
def results(addresses: dict[str, str]):
    async def play_all():
        async with Runner(addresses, concurrency=AT_A_TIME) as runner:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    each.name: group.create_task(conclude(runner, each.shown_by, each))
                    for each in DIFFERENCES
                }
            return {name: task.result() for name, task in tasks.items()}

    return asyncio.run(play_all())


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.name)
def test_still_differs(results, difference) -> None:
    result = results[difference.name]

    assert result.verdict == "different", f"no difference any more; take it off the list\n{result}"
    found = result.difference
    assert (found.kind, found.theirs, found.ours) == (
        difference.kind,
        difference.theirs,
        difference.ours,
    ), str(result)


@pytest.mark.parametrize(
    "difference", [each for each in DIFFERENCES if each.begins], ids=lambda each: each.name
)
def test_ends_a_sequence_where_it_begins(addresses: dict[str, str], difference) -> None:
    async def play():
        async with Runner(addresses) as runner:
            return await conclude(runner, difference.shown_by)

    result = asyncio.run(play())

    assert (result.verdict, result.reason) == ("known", difference.name), str(result)
