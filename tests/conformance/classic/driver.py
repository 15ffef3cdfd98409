"""Plays a classic game with a live broker and the core at the same time.

Both get the same requests. The core is told the time at which a request was sent. It knows all deadlines, so
it guides the waiting: no request is sent near a deadline, where it would be chance which comes first. A look
comes after what was sent before it (see `setups.py` of the harness), so what is not there then does not come.
A look before each deadline shows that the broker does nothing early.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from tests.conformance.classic.core import RACE_MS
from tests.conformance.classic.moves import Look
from tests.conformance.compare import Difference
from tests.conformance.game import Inconclusive

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.conformance.classic.client import ClassicClient
    from tests.conformance.classic.core import Outcome
    from tests.conformance.classic.game import ClassicGame
    from tests.conformance.wire import Question

__all__ = ["Driver"]

MARGIN_MS = 80
"""How far from a deadline requests are kept."""
SETTLE_MS = 40
"""How long after a deadline the broker is given to do what is due."""
STALL_MS = 25
"""If the machine was held up for so long, a difference says nothing."""
_ANSWER_LIMIT_S = SETTLE_MS / 1_000
_LOOKS, _LOOK_S = 5, 0.05
_SHORT_MS = 30
_ALL_MS = 4_000
_AT_END_MS = 2_500
_MAX_STATES = 64


class Driver:
    """Waits and asks for one game."""

    def __init__(self, game: ClassicGame, broker: ClassicClient) -> None:
        self._game, self._core = game, game.core
        self._broker, self._clock = broker, broker.clock
        self._open: dict[str, Question] = {}

    async def play(self, number: int) -> None:
        """Wait as the step says, send its request, compare what comes of it."""
        await self._pause(self._game.result.sequence.steps[number].pause)
        await self._keep_clear()
        request = self._game.request(number)
        if request is None:
            return
        question = await self._broker.ask(self._game.to_broker(request))
        self._open[request["request_id"]] = question
        if request["api"] == "offset_commit" and self._core.group is None:
            # A group to which nothing could be committed has no record, and shows only with the next one.
            await question.answer()
            await self._broker.write()
        outcomes = self._game.sent(request, question.at_ms)
        shown_ms = question.at_ms
        # What the request has done is not looked at when there is a deadline so soon that it may have passed.
        if (next_ms := _next_deadline(outcomes)) is not None and next_ms <= question.at_ms + MARGIN_MS:
            shown_ms, outcomes = self._pass_closely(next_ms, since=outcomes)
            await self._sleep_until(shown_ms + SETTLE_MS)
        await self._compare(outcomes, question.at_ms, shown_ms)

    async def finish(self) -> None:
        """Let the deadlines pass that are left, so that what was done last has its consequences."""
        await self._pass_time(self._clock.now_ms() + _AT_END_MS, until_none=True)
        await self._keep_clear()
        await self._pass_time(self._clock.now_ms() + SETTLE_MS)
        await self._look(self._clock.now_ms())

    def close(self) -> None:
        """Leave no parked connection behind."""
        for question in self._open.values():
            self._broker.drop(question)

    # -- time --------------------------------------------------------------------------------------

    async def _pause(self, pause: str) -> None:
        deadline_ms = self._core.next_deadline()
        left_ms = max((deadline_ms or 0) - self._clock.now_ms(), 0)
        if left_ms > _ALL_MS:
            left_ms = 0
        waits = {
            "short": _SHORT_MS,
            "half": left_ms // 2,
            "almost": max(left_ms - MARGIN_MS - 2 * _SHORT_MS, 0),
            "next": left_ms,
            "all": _ALL_MS,
        }
        if pause:
            wait_ms = waits[pause] if pause in waits else int(pause)
            await self._pass_time(self._clock.now_ms() + wait_ms, until_none=pause == "all")

    async def _keep_clear(self) -> None:
        """Wait until no deadline is near."""
        while (
            deadline_ms := self._core.next_deadline()
        ) is not None and deadline_ms <= self._clock.now_ms() + MARGIN_MS:
            await self._pass_time(deadline_ms)

    async def _sleep_until(self, at_ms: int) -> None:
        await self._clock.sleep(max(at_ms - self._clock.now_ms(), 0) / 1_000)

    async def _pass_time(self, until_ms: int, *, until_none: bool = False) -> None:
        """Let the time until `until_ms` pass, and compare what the deadlines in it bring about."""
        while (first_ms := self._core.next_deadline()) is not None and first_ms <= until_ms:
            if (quiet_ms := first_ms - MARGIN_MS) > self._clock.now_ms():
                await self._sleep_until(quiet_ms)
                await self._look(quiet_ms)
            last_ms, outcomes = self._pass_closely(first_ms)
            self._game.tell("the time passes", last_ms)
            await self._sleep_until(last_ms + SETTLE_MS)
            await self._compare(outcomes, first_ms, last_ms)
        if not until_none:
            await self._sleep_until(until_ms)

    def _pass_closely(self, first_ms: int, since: list[Outcome] | None = None) -> tuple[int, list[Outcome]]:
        """Let the deadline at `first_ms` pass, and those too close behind to look between.

        Those that race with one have to pass with it, or what it does may hide them. Returns when all have
        passed, and all that may have come of them, `since` this came.
        """
        next_ms: int | None = first_ms
        last_ms = first_ms
        outcomes: list[Outcome] = []
        while next_ms is not None and next_ms <= last_ms + MARGIN_MS:
            last_ms = next_ms + RACE_MS
            outcomes = self._core.pass_time(last_ms, since)
            next_ms = _next_deadline(outcomes)
        return last_ms, outcomes

    # -- comparison --------------------------------------------------------------------------------

    async def _look(self, at_ms: int) -> None:
        """Compare when nothing but time has passed."""
        await self._compare(self._core.pass_time(at_ms), at_ms, at_ms)

    async def _compare(self, outcomes: list[Outcome], first_ms: int, shown_ms: int) -> None:
        """Keep the outcomes that are the broker's.

        They have come about since `first_ms`, by what was due up to `shown_ms`.
        """
        if len(outcomes) > _MAX_STATES:
            raise Inconclusive(f"there are {len(outcomes)} ways in which it may have gone on")
        await self._wait_for_answers(outcomes)
        look = await self._shown(shown_ms)
        early = [each for each in look.answers if self._open[each].result().at_ms < first_ms - SETTLE_MS]
        difference = self._game.compare(outcomes, look)
        if early:
            await self._differ(Difference("too early", early, "later"))
        if difference is not None:
            await self._differ(difference, outcomes)
        for request_id in look.answers:
            self._broker.drop(self._open.pop(request_id))

    async def _wait_for_answers(self, outcomes: list[Outcome]) -> None:
        """Wait until all that any one of `outcomes` answers is answered.

        Mostly that is so when the description comes, but a broker's timer takes its time even for no delay.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _ANSWER_LIMIT_S * self._clock.slowness
        while True:
            missing = [
                [raw for request_id in outcome.answers if not (raw := self._open[request_id].raw).done()]
                for outcome in outcomes
            ]
            left = deadline - loop.time()
            if left <= 0 or not all(missing):
                return
            await asyncio.wait(missing[0], timeout=left, return_when=asyncio.FIRST_COMPLETED)

    async def _shown(self, at_ms: int) -> Look:
        """What the broker shows now, when it has done all that was due up to `at_ms`."""
        group = await self._broker.look(self._game.group_id)
        answers = {
            request_id: question.result().fields
            for request_id, question in self._open.items()
            if question.is_answered
        }
        return Look(at_ms, answers, group)

    async def _differ(self, difference: Difference, outcomes: Iterable[Outcome] = ()) -> NoReturn:
        """Raise `difference`, unless it may be the machine's.

        It is the machine's if the broker does one of the `outcomes` a little later.
        """
        outcomes = list(outcomes)
        before = {request_id for request_id, question in self._open.items() if question.is_answered}
        for _ in range(_LOOKS):
            await self._clock.sleep(_LOOK_S)
            if self._game.is_one_of(outcomes, look := await self._shown(self._clock.now_ms())):
                raise Inconclusive("the broker was late", difference)
        for request_id in look.answers.keys() - before:
            self._game.tell(f"  later the broker answers {request_id}", self._open[request_id].result().at_ms)
        held_up_ms = self._broker.held_up_ms(self._game.start_ms)
        if held_up_ms > STALL_MS:
            raise Inconclusive(f"the machine was held up for {held_up_ms} ms", difference)
        raise difference


def _next_deadline(outcomes: list[Outcome]) -> int | None:
    deadlines = [outcome.deadline_ms for outcome in outcomes if outcome.deadline_ms is not None]
    return min(deadlines, default=None)
