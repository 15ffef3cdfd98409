"""The brokers that the core is compared with, started when the first test needs them."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.conformance.runner import Runner, start_brokers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.conformance.driver import Result
    from tests.conformance.sequence import Sequence as Played


@pytest.fixture(scope="session")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where the broker of each setup is."""
    with ExitStack() as stack:
        yield start_brokers(stack, tmp_path_factory.mktemp("conformance"))


@pytest.fixture(scope="session")
def play_all(addresses: dict[str, str]) -> Callable[[Sequence[Played]], list[Result]]:
    """Plays sequences, all at a time. For the core each lies in the partition of its number."""

    async def play(sequences: Sequence[Played]) -> list[Result]:
        async with Runner(addresses) as runner:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(runner.run(sequence, partition=number))
                    for number, sequence in enumerate(sequences)
                ]
            return [task.result() for task in tasks]

    return lambda sequences: asyncio.run(play(sequences))
