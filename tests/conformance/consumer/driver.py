"""Plays a sequence against a live broker, and the core at the same time if it is to play along.

The core is told the time at which a request was sent. It knows all deadlines, so no request is sent near one,
where it would be chance which comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.consumer.game import CHANGES, Game, Result
from tests.conformance.consumer.sequence import NEW
from tests.conformance.game import Inconclusive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.consumer.client import ConsumerClient
    from tests.conformance.consumer.core import Core
    from tests.conformance.consumer.differences import Known
    from tests.conformance.consumer.sequence import Sequence
    from tests.conformance.consumer.topics import Topic

MARGIN_MS = 80
"""How far from a deadline requests are kept."""
_SETTLE_MS = 60
"""How long after a deadline the broker is given to do what is due."""


async def play(
    sequence: Sequence,
    client: ConsumerClient,
    topics: Mapping[str, Topic],
    group_id: str,
    known: Known | None = None,
) -> Result:
    """Play `sequence` with the group `group_id`, which must be new.

    What is `known` does not count as a difference; None: only the broker plays.
    """
    game = Game(sequence, topics, group_id, known)
    driver = _Driver(game, client, group_id)
    with game.judged():
        for number in range(len(sequence.steps)):
            await driver.play(number)
    return game.result


class _Driver:
    """Waits and asks for one game."""

    def __init__(self, game: Game, client: ConsumerClient, group_id: str) -> None:
        self._game, self._client, self._group_id = game, client, group_id
        self._start_ms = client.clock.now_ms()

    async def play(self, number: int) -> None:
        """Wait as the step says, do what it says, and compare what comes of it."""
        game, step = self._game, self._game.result.sequence.steps[number]
        await self._client.clock.sleep(step.pause / 1_000)
        if step.api in CHANGES:
            letter = step.names or ""
            topic = game.topics.known.get(letter)
            # In a sequence that was made smaller there may be nothing to do.
            if (topic is None) == (step.api == "make"):
                name = game.topics.name(letter)
                topic = await self._client.change_topic(step.api, name, topic, NEW[letter])
            game.changed(number, topic, self._now_ms())
            return
        await self._keep_clear(game.core)
        at_ms = self._now_ms()
        if game.core is not None:
            game.core.pass_time(at_ms)
        request = game.request(number, at_ms)
        if request is None:
            shown = await self._client.look_at(self._group_id, game.topics)
            self._check_the_clock(game.core)
            game.waited(number, shown, at_ms)
            return
        answer = await self._client.tell(request)
        if request["api"] == "join_group":
            # What a refused join has made Kafka forget shows only once it has written something.
            await self._client.write()
        shown = await self._client.look_at(self._group_id, game.topics)
        self._check_the_clock(game.core)
        game.told(number, request, game.in_short(request, answer), shown, at_ms, answer)

    async def _keep_clear(self, core: Core | None) -> None:
        """Wait until no deadline is near."""
        while (
            core is not None
            and (deadline_ms := core.next_deadline_ms) is not None
            and deadline_ms < self._now_ms() + MARGIN_MS
        ):
            await self._client.clock.sleep(max(deadline_ms + _SETTLE_MS - self._now_ms(), 0) / 1_000)
            core.pass_time(self._now_ms())

    def _check_the_clock(self, core: Core | None) -> None:
        """See that what the broker has shown is of before the next deadline."""
        deadline_ms = None if core is None else core.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= self._now_ms():
            raise Inconclusive("the machine was held up")

    def _now_ms(self) -> int:
        return self._client.clock.now_ms() - self._start_ms
