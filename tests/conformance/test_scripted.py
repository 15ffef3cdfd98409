from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.conformance.recorded import PLAYED, SHOWN, complaint
from tests.conformance.runner import Runner, start_brokers
from tests.conformance.scripted import PATIENT
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.conformance.game import Result

pytestmark = pytest.mark.spark

ALL = [name for name in PLAYED if name not in PATIENT]
"""What takes minutes is played by `make conformance`."""
SOME = [name for name in ALL if PLAYED[name].setup == "plain" and name not in SHOWN][::8]
"""One broker plays these in some seconds: so `make test` has a live one beside the records."""
AT_A_TIME = 12


async def conclude(runner: Runner, name: str) -> Result:
    """Play it until the machine was not held up meanwhile, for some time."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        result = await runner.run(PLAYED[name], SHOWN.get(name))
        if result.verdict != "inconclusive" or time.monotonic() > deadline:
            return result


def play(addresses: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return what is wrong with each of the scripts, empty if nothing is."""

    async def play_all() -> dict[str, str]:
        async with Runner(addresses, AT_A_TIME) as runner:
            async with asyncio.TaskGroup() as group:
                tasks = {name: group.create_task(conclude(runner, name)) for name in names}
            return {name: complaint(name, task.result()) for name, task in tasks.items()}

    return asyncio.run(play_all())


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with ExitStack() as stack:
        addresses = start_brokers(stack, tmp_path_factory.mktemp("conformance"), ["plain"])
        return play(addresses, SOME)


@pytest.fixture(scope="module")
def results(addresses: dict[str, str]) -> dict[str, str]:
    return play(addresses, ALL)


@pytest.mark.parametrize("name", SOME)
def test_a_live_broker_does_what_the_core_does(some: dict[str, str], name: str) -> None:
    assert not some[name], some[name]


# With tests/coordinator_state/test_recorded.py this shows that the records still hold.
@pytest.mark.verify
@pytest.mark.parametrize("name", ALL)
def test_live_brokers_do_what_the_core_does_in_all_scripts(results: dict[str, str], name: str) -> None:
    assert not results[name], results[name]
