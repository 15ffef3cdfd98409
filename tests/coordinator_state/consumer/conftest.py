"""The groups of these tests, whose logs are read again when a test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.coordinator_state.consumer.scenario import Consumers


@pytest.fixture
def group() -> Iterator[Callable[..., Consumers]]:
    """Makes scenarios. Each is played again in the end, cut in other ways."""
    made: list[Consumers] = []

    def make(**config: object) -> Consumers:
        made.append(Consumers(**config))
        return made[-1]

    yield make
    for each in made:
        each.is_the_same_however_it_is_cut()
