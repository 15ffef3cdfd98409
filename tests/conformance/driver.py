"""Plays a sequence against the broker and the core at the same time, and compares all that can be seen.

Both get the same requests. The core is told the time at which a request was sent. It knows all deadlines, so
it guides the waiting: no request is sent near a deadline, where it would be chance which comes first. After
each request, and after each deadline, the broker has to have given the answers that the core gives, no
others, has to describe the group as the core does, and to have the same offsets committed. A description
comes after what was sent before it (see `setups.py`), so what is not there then does not come.

Member ids are the broker's own. `Ids` pairs them with the core's as they are told.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from tests.conformance.actors import Cast
from tests.conformance.compare import Difference, Ids, brief
from tests.conformance.core import RACE_MS, Core, CoreFailed
from tests.conformance.sequence import write_sequence
from tests.conformance.setups import SETUPS
from tests.conformance.wire import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from group_coordinator.coordinator_state.log import Record
    from tests.conformance.core import Outcome
    from tests.conformance.differences import Known
    from tests.conformance.sequence import Sequence, Step
    from tests.conformance.wire import Answer, BrokerClient, Question

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


class Inconclusive(Exception):  # noqa: N818 - same
    """The machine was held up, so a request may have met a deadline: it has to be played again."""

    def __init__(self, reason: str, difference: Difference | None = None) -> None:
        super().__init__(f"{reason}; {difference}" if difference else reason)
        self.difference = difference


class _MetKnown(Exception):  # noqa: N818 - same
    """A known difference shows from here on; its name is the message."""


@dataclass
class Result:
    """What came of a sequence."""

    sequence: Sequence
    verdict: str
    """`same`, `different`, `known` or `inconclusive`."""
    reason: str = ""
    difference: Difference | None = None
    """What was found; if it is `inconclusive`, what may be the machine's fault."""
    story: list[str] = field(default_factory=list)
    """What was sent and answered, to be read by people."""
    comparisons: int = 0
    answered: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """How often: group's state before, API, error code."""
    log: list[Record] = field(default_factory=list)
    """The requests, with the times at which the broker got them ..."""
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """... and what both answered, by request id."""

    def __str__(self) -> str:
        story = "\n".join(f"    {line}" for line in self.story)
        return f"{self.verdict}: {self.reason}\n{story}\n  {write_sequence(self.sequence)}"


def topic_of(setup: str) -> str:
    """Where the requests lie for the core."""
    return f"requests.{setup}"


async def play(
    sequence: Sequence, broker: BrokerClient, group_id: str, known: Known, partition: int = 0
) -> Result:
    """Play `sequence` with the group `group_id`, which must be new. What is `known` does not count.

    `partition` is where the requests lie for the core, which makes member ids of it.
    """
    core = Core(group_id, SETUPS[sequence.setup].core, known.undo, topic_of(sequence.setup), partition)
    game = _Game(sequence, broker, core, known)
    result = Result(sequence, "same")
    try:
        for number, step in enumerate(sequence.steps):
            await game.play(number, step)
        await game.finish()
    except Difference as difference:
        result.verdict, result.reason, result.difference = "different", str(difference), difference
    except CoreFailed as failure:
        result.verdict, result.reason = "different", f"the core failed: {failure}"
        result.difference = Difference("the core failed", "no failure", failure)
    except Inconclusive as inconclusive:
        result.verdict, result.reason = "inconclusive", str(inconclusive)
        result.difference = inconclusive.difference
    except _MetKnown as known_difference:
        result.verdict, result.reason = "known", str(known_difference)
    finally:
        game.close()
    result.story, result.comparisons, result.answered = game.story, game.comparisons, game.answered
    result.log, result.answers = game.core.log, game.answers
    return result


class _Game:
    """One sequence in play."""

    def __init__(self, sequence: Sequence, broker: BrokerClient, core: Core, known: Known) -> None:
        self.core = core
        self.answers: dict[str, dict[str, Any]] = {}
        self.story: list[str] = []
        self.comparisons = 0
        self.answered: Counter[tuple[str, str, int]] = Counter()
        self._broker = broker
        self._known = known
        self._group_id = core.group_id
        self._setup = SETUPS[sequence.setup]
        self._cast = Cast()
        self._ids = Ids()
        self._open: dict[str, tuple[Step, Question]] = {}
        self._requests: dict[str, dict[str, Any]] = {}
        self._clients: dict[str, str] = {}
        self._start_ms = now_ms()

    async def play(self, number: int, step: Step) -> None:
        """Wait as the step says, send its request, compare what comes of it."""
        await self._pause(step.pause)
        await self._keep_clear()
        request = self._cast.request(step, self._group_id, f"r{number}")
        if request is None:
            return
        if (name := self._known.begins(self.core.group, request, self._setup)) is not None:
            raise _MetKnown(name)
        self._requests[request["request_id"]] = request
        question = await self._broker.ask(self._ids.to_broker(request))
        self._open[request["request_id"]] = (step, question)
        self._tell(f"actor {step.actor} sends {brief(request)}", question.at_ms)
        if request["api"] == "offset_commit" and self.core.group is None:
            # A group to which nothing could be committed has no record, and shows only with the next one.
            await question.answer()
            await self._broker.write()
        outcomes = self.core.handle(request, question.at_ms)
        # What the request has done is not looked at when there is a deadline so soon that it may have passed.
        if (next_ms := _next_deadline(outcomes)) is not None and next_ms <= question.at_ms + MARGIN_MS:
            last_ms, outcomes = self._pass_closely(next_ms, since=outcomes)
            await _sleep_until(last_ms + SETTLE_MS)
        await self._compare(outcomes, question.at_ms)

    async def finish(self) -> None:
        """Let the deadlines pass that are left, so that what was done last has its consequences."""
        await self._pass_time(now_ms() + _AT_END_MS, until_none=True)
        await self._keep_clear()
        await self._pass_time(now_ms() + SETTLE_MS)
        await self._compare(self.core.pass_time(now_ms()), now_ms())

    def close(self) -> None:
        """Leave no parked connection behind."""
        for _, question in self._open.values():
            self._broker.drop(question)

    # -- time --------------------------------------------------------------------------------------

    async def _pause(self, pause: str) -> None:
        deadline_ms = self.core.next_deadline()
        left_ms = max((deadline_ms or 0) - now_ms(), 0)
        if left_ms > _ALL_MS:
            left_ms = 0
        match pause:
            case "":
                pass
            case "short":
                await self._pass_time(now_ms() + _SHORT_MS)
            case "half":
                await self._pass_time(now_ms() + left_ms // 2)
            case "almost":
                await self._pass_time(now_ms() + max(left_ms - MARGIN_MS - 2 * _SHORT_MS, 0))
            case "next":
                await self._pass_time(now_ms() + left_ms)
            case "all":
                await self._pass_time(now_ms() + _ALL_MS, until_none=True)
            case _:
                await self._pass_time(now_ms() + int(pause))

    async def _keep_clear(self) -> None:
        """Wait until no deadline is near."""
        while (deadline_ms := self.core.next_deadline()) is not None and deadline_ms <= now_ms() + MARGIN_MS:
            await self._pass_time(deadline_ms)

    async def _pass_time(self, until_ms: int, *, until_none: bool = False) -> None:
        """Let the time until `until_ms` pass, and compare what the deadlines in it bring about."""
        while (first_ms := self.core.next_deadline()) is not None and first_ms <= until_ms:
            last_ms, outcomes = self._pass_closely(first_ms)
            self._tell("the time passes", last_ms)
            await _sleep_until(last_ms + SETTLE_MS)
            await self._compare(outcomes, first_ms)
        if not until_none:
            await _sleep_until(until_ms)

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
            outcomes = self.core.pass_time(last_ms, since)
            next_ms = _next_deadline(outcomes)
        return last_ms, outcomes

    # -- comparison --------------------------------------------------------------------------------

    async def _compare(self, outcomes: list[Outcome], first_ms: int) -> None:
        """Keep the outcomes that are the broker's."""
        if len(outcomes) > _MAX_STATES:
            raise Inconclusive(f"there are {len(outcomes)} ways in which it may have gone on")
        await self._wait_for_answers(outcomes)
        description = await self._broker.look(self._group_id)
        arrived = self._arrived()
        for request_id, answer in arrived.items():
            self._tell(f"  the broker answers {request_id}: {brief(answer.fields)}", answer.at_ms)
        kept, lost = [], []
        for outcome in outcomes:
            ids = self._ids.copy()
            if differences := list(self._judge(outcome, arrived, description, ids)):
                lost.append((len(differences), differences[0], outcome))
            else:
                kept.append((outcome, ids))
        early = [request_id for request_id, answer in arrived.items() if answer.at_ms < first_ms - SETTLE_MS]
        if early:
            await self._differ(Difference("too early", early, "later"))
        if not kept:
            _, difference, nearest = min(lost, key=lambda each: each[0])
            self._tell_outcome(nearest)
            await self._differ(difference, outcomes)
        self.comparisons += 1
        before = self.core.group
        for request_id, answer in arrived.items():
            api = self._requests[request_id]["api"]
            self.answered[str(before.state) if before else "none", api, answer.fields["error_code"]] += 1
        self._ids = kept[0][1]
        self._clients = {
            member["group_instance_id"]: member["client_id"]
            for member in description["members"]
            if member["group_instance_id"] is not None
        }
        self.core.keep([outcome for outcome, _ in kept])
        self._hear(kept[0][0])

    async def _wait_for_answers(self, outcomes: list[Outcome]) -> None:
        """Wait until all that any one of `outcomes` answers is answered.

        Mostly that is so when the description comes, but a broker's timer takes its time even for no delay.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _ANSWER_LIMIT_S
        while True:
            missing = [
                [raw for request_id in outcome.answers if not (raw := self._open[request_id][1].raw).done()]
                for outcome in outcomes
            ]
            left = deadline - loop.time()
            if left <= 0 or not all(missing):
                return
            await asyncio.wait(missing[0], timeout=left, return_when=asyncio.FIRST_COMPLETED)

    def _arrived(self) -> dict[str, Answer]:
        return {
            request_id: question.result()
            for request_id, (_, question) in self._open.items()
            if question.is_answered
        }

    async def _differ(self, difference: Difference, outcomes: Iterable[Outcome] = ()) -> NoReturn:
        """Raise `difference`, unless it may be the machine's.

        It is the machine's if the broker does one of the `outcomes` a little later.
        """
        before = self._arrived()
        for _ in range(_LOOKS):
            await asyncio.sleep(_LOOK_S)
            description = await self._broker.look(self._group_id)
            arrived = self._arrived()
            for outcome in outcomes:
                if not any(self._judge(outcome, arrived, description, self._ids.copy())):
                    raise Inconclusive("the broker was late", difference)
        for request_id in self._arrived().keys() - before.keys():
            self._tell(f"  later the broker answers {request_id}", self._arrived()[request_id].at_ms)
        held_up_ms = self._broker.held_up_ms(self._start_ms)
        if held_up_ms > STALL_MS:
            raise Inconclusive(f"the machine was held up for {held_up_ms} ms", difference)
        raise difference

    def _judge(
        self, outcome: Outcome, arrived: dict[str, Answer], description: dict[str, Any], ids: Ids
    ) -> Iterator[Difference]:
        """Say how `outcome` differs from what the broker did. `ids` learns of new ones."""
        for request_id in sorted(outcome.answers.keys() ^ arrived.keys()):
            kind = f"{self._requests[request_id]['api']}, who is answered"
            if request_id in arrived:
                theirs = f"{request_id}: {arrived[request_id].fields['error_code']}"
                yield Difference(kind, theirs, "no answer")
            else:
                yield Difference(
                    kind, "no answer", f"{request_id}: {outcome.answers[request_id]['error_code']}"
                )
        ours = self.core.look(outcome.state)
        first_clients = {} if self._known.shows_clients else self._first_clients(ours)
        _show_clients(first_clients, ours)
        # First, because it tells whose ids are whose; but an answer says more.
        described = list(ids.pair_descriptions(ours, description))
        for request_id in outcome.answers.keys() & arrived.keys():
            answer = outcome.answers[request_id]
            if answer["api"] == "describe_group":
                _show_clients(first_clients, answer)
            yield from ids.pair_answers(answer, arrived[request_id].fields)
        yield from described

    def _first_clients(self, description: dict[str, Any]) -> dict[str, str]:
        """The first clients of static members, which the broker shows for as long as they are members.

        By the core's member ids, which `description` has.
        """
        return {
            member["member_id"]: self._clients[member["group_instance_id"]]
            for member in description["members"]
            if member["group_instance_id"] in self._clients
        }

    def _hear(self, outcome: Outcome) -> None:
        self.answers |= outcome.answers
        for request_id, answer in outcome.answers.items():
            step, question = self._open.pop(request_id)
            self._broker.drop(question)
            self._cast[step.actor].hear(self._requests[request_id], answer)
        group = self.core.group
        self._tell(f"  {'no group' if group is None else f'{group.state} {group.generation_id}'}", now_ms())

    def _tell_outcome(self, outcome: Outcome) -> None:
        self._tell(f"  the core: {brief(self.core.look(outcome.state))}", now_ms())
        for request_id, answer in outcome.answers.items():
            self._tell(f"  the core answers {request_id}: {brief(answer)}", now_ms())

    def _tell(self, what: str, at_ms: int) -> None:
        self.story.append(f"{at_ms - self._start_ms:6} {self._ids.named(what)}")


def _next_deadline(outcomes: list[Outcome]) -> int | None:
    deadlines = [outcome.deadline_ms for outcome in outcomes if outcome.deadline_ms is not None]
    return min(deadlines, default=None)


def _show_clients(clients: dict[str, str], description: dict[str, Any]) -> None:
    for member in description["members"]:
        member["client_id"] = clients.get(member["member_id"], member["client_id"])


async def _sleep_until(at_ms: int) -> None:
    await asyncio.sleep(max(at_ms - now_ms(), 0) / 1_000)
