from __future__ import annotations

import asyncio

import pytest

from tests.conformance.differences import DIFFERENCES
from tests.conformance.runner import Runner

pytestmark = pytest.mark.spark


# Some of them have to be in time for a deadline.
AT_A_TIME = 5


@pytest.fixture(scope="module")
def results(addresses: dict[str, str]):
    async def play_all():
        async with Runner(addresses, concurrency=AT_A_TIME) as runner:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    each.name: group.create_task(runner.run(each.shown_by, shows=each))
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
            return await runner.run(difference.shown_by)

    result = asyncio.run(play())

    assert (result.verdict, result.reason) == ("known", difference.name), str(result)
