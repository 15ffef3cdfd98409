"""Consumer groups that live by chance: what must hold always holds, however the log is cut."""

from __future__ import annotations

from random import Random

import pytest

from tests.coordinator_state.consumer.world import World
from tests.depth import cases

pytestmark = pytest.mark.drawn


@pytest.mark.parametrize("interval_ms", [0, 1_000])
@pytest.mark.parametrize("seed", range(cases(20, deep=1_500)))
def test_any_life(seed: int, interval_ms: int) -> None:
    rng = Random(f"{seed} {interval_ms}")
    world = World(rng, group_consumer_assignment_interval_ms=interval_ms)
    world.live(rng.choice([10, 60, 120]))
    world.settles()
    world.is_the_same_however_it_is_cut()
