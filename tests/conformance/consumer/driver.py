"""Plays a game of the consumer protocol with a live broker and the core at the same time.

The core is told the time at which a request was sent. It knows all deadlines, so no request is sent near one,
where it would be chance which comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.consumer.sequence import CHANGES, NEW, RESOLVE
from tests.conformance.game import Inconclusive

if TYPE_CHECKING:
    from tests.conformance.consumer.client import ConsumerClient
    from tests.conformance.consumer.game import ConsumerGame

__all__ = ["Driver"]

MARGIN_MS = 80
"""How far from a deadline requests are kept."""
_SETTLE_MS = 60
"""How long after a deadline the broker is given to do what is due."""


class Driver:
    """Waits and asks for one game."""

    def __init__(self, game: ConsumerGame, client: ConsumerClient) -> None:
        self._game, self._core = game, game.core
        self._client, self._clock = client, client.clock

    async def play(self, number: int) -> None:
        """Wait as the step says, do what it says, and compare what comes of it."""
        game, step = self._game, self._game.result.sequence.steps[number]
        await self._clock.sleep(step.pause / 1_000)
        if step.api in CHANGES:
            letter = step.names or ""
            topic = game.topics.known.get(letter)
            # In a sequence that was made smaller there may be nothing to do.
            if (topic is None) == (step.api == "make"):
                name = game.topics.name(letter)
                topic = await self._client.change_topic(step.api, name, topic, NEW[letter])
            game.changed(number, topic, self._clock.now_ms())
            return
        await self._keep_clear()
        if step.api == RESOLVE:
            await self._resolve(number)
            return
        at_ms = self._clock.now_ms()
        self._core.pass_time(at_ms)
        request = game.request(number)
        if request is None:
            game.waited(number, await self._shown(), at_ms)
            return
        heard = await self._client.tell(request)
        if request["api"] == "join_group":
            # What a refused join has made Kafka forget shows only once it has written something.
            await self._client.write()
        shown = await self._shown() if game.is_seen(number) else None
        game.told(number, request, game.in_short(request, heard.fields), shown, at_ms, heard)

    async def _resolve(self, number: int) -> None:
        """Wait for what the broker is resolving, if anything, and compare what comes of it."""
        game = self._game
        patterns = {}
        if game.resolutions.may_run:
            await self._client.await_patterns()
            game.resolutions.end(self._clock.now_ms())
            patterns = game.patterns()
        shown = await self._shown()
        game.resolved(number, patterns, shown, self._clock.now_ms())

    async def _keep_clear(self) -> None:
        """Wait until no deadline is near."""
        while (
            deadline_ms := self._core.next_deadline_ms
        ) is not None and deadline_ms < self._clock.now_ms() + MARGIN_MS:
            await self._clock.sleep(max(deadline_ms + _SETTLE_MS - self._clock.now_ms(), 0) / 1_000)
            self._core.pass_time(self._clock.now_ms())

    async def _shown(self) -> dict[str, Any]:
        """What the broker shows, which has to be of before the next deadline."""
        shown = await self._client.look_at(self._game.group_id, self._game.topics)
        deadline_ms = self._core.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= self._clock.now_ms():
            raise Inconclusive("the machine was held up")
        return shown
