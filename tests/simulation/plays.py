"""The kinds of groups that a run may be of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.classic_play import ClassicPlay
from tests.simulation.consumer_play import ConsumerPlay

if TYPE_CHECKING:
    from tests.simulation.play import Play

CLASSIC, CONSUMER = "classic", "consumer"
PLAYS: dict[str, type[Play]] = {CLASSIC: ClassicPlay, CONSUMER: ConsumerPlay}
