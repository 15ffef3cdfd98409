"""Live brokers and the core, in scripts and in sequences that are drawn."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.conformance.classic.game import ClassicGame
from tests.conformance.classic.scripted import PATIENT
from tests.conformance.games import GAMES
from tests.conformance.recorded import complaint
from tests.conformance.runner import Broker, Runner, start_brokers
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.conformance.game import Game, Result

pytestmark = pytest.mark.spark

ALL = [(game, name) for game in GAMES.values() for name in game.played if name not in PATIENT]
"""What takes minutes is played by `make conformance`."""
PLAIN = [name for game, name in ALL if game is ClassicGame and game.played[name].setup == "plain"]
SOME = [name for name in PLAIN if ClassicGame.shows(name) is None][::8]
"""One broker plays these in some seconds: so `make test` has a live one beside the records."""
SEEDS = {"classic": range(220), "consumer": range(300)}
SHRUNK = 2
SHRINK_S = 60


async def conclude(game: type[Game], runner: Runner, name: str) -> Result:
    """Play it until the machine was not held up meanwhile, for some time."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        result = await runner.run(game.played[name], game.shows(name))
        if result.verdict != "inconclusive" or time.monotonic() > deadline:
            return result


def play(game: type[Game], brokers: dict[str, Broker], names: Iterable[str]) -> dict[str, str]:
    """Return what is wrong with each of the scripts, empty if nothing is."""

    async def play_all() -> dict[str, str]:
        async with Runner(game, brokers, game.scripts_at_a_time) as runner:
            async with asyncio.TaskGroup() as group:
                tasks = {name: group.create_task(conclude(game, runner, name)) for name in names}
            results = {name: task.result() for name, task in tasks.items()}
        return {name: complaint(game, name, it, is_live=True) for name, it in results.items()}

    return asyncio.run(play_all())


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with ExitStack() as stack:
        brokers = start_brokers(stack, ClassicGame, tmp_path_factory.mktemp("conformance"), ["plain"])
        return play(ClassicGame, brokers, SOME)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[type[Game]], dict[str, Broker]]]:
    """Those of a game, started when the first test asks for them."""
    with ExitStack() as stack:
        yield cache(lambda game: start_brokers(stack, game, tmp_path_factory.mktemp("conformance")))


@pytest.fixture(scope="module")
def results(brokers: Callable[[type[Game]], dict[str, Broker]]) -> Callable[[type[Game]], dict[str, str]]:
    return cache(lambda game: play(game, brokers(game), [name for each, name in ALL if each is game]))


@pytest.mark.parametrize("name", SOME)
def test_a_live_broker_does_what_the_core_does(some: dict[str, str], name: str) -> None:
    assert not some[name], some[name]


# With the tests of the records in tests/coordinator_state this shows that the records still hold.
@pytest.mark.verify
@pytest.mark.parametrize(("game", "name"), ALL)
def test_live_brokers_do_what_the_core_does_in_all_scripts(
    results: Callable[[type[Game]], dict[str, str]], game: type[Game], name: str
) -> None:
    assert not results(game)[name], results(game)[name]


@pytest.mark.verify
@pytest.mark.parametrize(("game", "seeds"), [(GAMES[name], seeds) for name, seeds in SEEDS.items()])
def test_both_do_the_same(
    brokers: Callable[[type[Game]], dict[str, Broker]], game: type[Game], seeds: range
) -> None:
    asyncio.run(play_and_check(game, brokers(game), seeds))


async def play_and_check(game: type[Game], brokers: dict[str, Broker], seeds: range) -> None:
    async with Runner(game, brokers, game.drawn_at_a_time) as runner:
        failures = await runner.run_all(game.draw(random.Random(seed)) for seed in seeds)
        told = [str(failure) for failure in failures]
        told[:SHRUNK] = [await runner.shrink(failure, SHRINK_S) for failure in failures[:SHRUNK]]

    assert not failures, "\n\n".join(told)
    # Most of them are to be compared to their ends.
    assert runner.counts["same"] > 0.7 * len(seeds), runner.counts
