"""The game of each protocol, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.classic.game import ClassicGame
from tests.conformance.consumer.game import ConsumerGame

if TYPE_CHECKING:
    from tests.conformance.game import Game

__all__ = ["GAMES"]

GAMES: dict[str, type[Game]] = {"classic": ClassicGame, "consumer": ConsumerGame}
