"""Plays a record against the core, as `driver.play` does with a live broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.consumer.differences import Known
from tests.conformance.consumer.game import CHANGES, Game, Result
from tests.conformance.consumer.told import patched

if TYPE_CHECKING:
    from tests.conformance.consumer.differences import KnownDifference
    from tests.conformance.consumer.game import Move
    from tests.conformance.consumer.recorded import Recorded
    from tests.conformance.consumer.sequence import Sequence

__all__ = ["replay"]

_GROUP_ID = "group"


def replay(record: Recorded, sequence: Sequence, shows: KnownDifference | None = None) -> Result:
    """Hold the core beside what a broker has shown. Of the known differences only `shows` counts."""
    game = Game(sequence, record.topics, _GROUP_ID, Known(shows))
    shown: dict[str, Any] = {}
    with game.judged():
        for move in record.moves:
            shown = patched(shown, move.shown)
            _play(game, move, shown)
    return game.result


def _play(game: Game, move: Move, shown: dict[str, Any]) -> None:
    assert game.core is not None
    game.core.pass_time(move.at_ms)
    if game.result.sequence.steps[move.step].api in CHANGES:
        topic = None if move.answer is None else (str(move.answer[0]), int(move.answer[1]))
        game.changed(move.step, topic, move.at_ms)
        return
    request = game.request(move.step, move.at_ms)
    if request is None:
        game.waited(move.step, shown, move.at_ms)
    else:
        game.told(move.step, request, move.answer, shown, move.at_ms)
