"""One sequence in play: what was asked, what may have come of it, and what the broker shows.

It neither waits nor asks: `driver.py` does so with a live broker, and `recorded.py` knows what one has shown.
After each request, and after each deadline, the broker has to have given the answers that the core gives, no
others, has to describe the group as the core does, and to have the same offsets committed.

Member ids are the broker's own. `Ids` pairs them with the core's as they are told.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from tests.conformance.actors import Cast
from tests.conformance.compare import Difference, Ids, brief
from tests.conformance.core import Core, CoreFailed
from tests.conformance.sequence import write_sequence
from tests.conformance.setups import SETUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from group_coordinator.coordinator_state.log import Record
    from tests.conformance.core import Outcome
    from tests.conformance.differences import Known
    from tests.conformance.sequence import Sequence, Step


class Inconclusive(Exception):  # noqa: N818 - it says what happened
    """The machine was held up, so a request may have met a deadline: it has to be played again."""

    def __init__(self, reason: str, difference: Difference | None = None) -> None:
        super().__init__(f"{reason}; {difference}" if difference else reason)
        self.difference = difference


class _MetKnown(Exception):  # noqa: N818 - same
    """A known difference shows from here on; its name is the message."""


class Sent(msgspec.Struct, array_like=True, tag="sent", frozen=True):
    """A request was sent."""

    at_ms: int
    """Since the sequence began, as all times of moves."""
    step: int
    """Of which step of the sequence."""


class Look(msgspec.Struct, array_like=True, tag="look", frozen=True):
    """What the broker showed when everything due had been done."""

    at_ms: int
    """Up to when deadlines had passed."""
    answers: dict[str, dict[str, Any]]
    """What it had answered since the look before, by request id, in the contract's terms."""
    group: dict[str, Any]
    """The group's description and, as `offsets`, all that is committed."""


Move = Sent | Look


@dataclass
class Result:
    """What came of a sequence."""

    sequence: Sequence
    verdict: str = "same"
    """`same`, `different`, `known` or `inconclusive`."""
    reason: str = ""
    difference: Difference | None = None
    """What was found; if it is `inconclusive`, what may be the machine's fault."""
    story: list[str] = field(default_factory=list)
    """What was sent and answered, to be read by people."""
    moves: list[Move] = field(default_factory=list)
    """The same, to be played again."""
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


class Game:
    """One sequence in play, from `start_ms` on.

    `partition` is where the requests lie for the core, which makes member ids of it.
    """

    def __init__(
        self, sequence: Sequence, group_id: str, known: Known, start_ms: int, partition: int = 0
    ) -> None:
        self.setup = SETUPS[sequence.setup]
        self.core = Core(group_id, self.setup.core, known.undo, topic_of(sequence.setup), partition)
        self.result = Result(sequence)
        self._known = known
        self._start_ms = start_ms
        self._cast = Cast()
        self._ids = Ids()
        self._asked: dict[str, tuple[Step, dict[str, Any]]] = {}
        self._clients: dict[str, str] = {}

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Take what ends the sequence in this context for the verdict of `result`."""
        result = self.result
        try:
            yield
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
        result.log = self.core.log

    def request(self, number: int) -> dict[str, Any] | None:
        """Return the request of the step with this number; None if it only waits."""
        step = self.result.sequence.steps[number]
        request = self._cast.request(step, self.core.group_id, f"r{number}")
        if request is not None:
            if (name := self._known.begins(self.core.group, request, self.setup)) is not None:
                raise _MetKnown(name)
            self._asked[request["request_id"]] = (step, request)
        return request

    def to_broker(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the request with the broker's ids."""
        return self._ids.to_broker(request)

    def sent(self, request: dict[str, Any], at_ms: int) -> list[Outcome]:
        """Return all that may come of `request`, which was sent at `at_ms`."""
        step, _ = self._asked[request["request_id"]]
        self.result.moves.append(Sent(at_ms - self._start_ms, int(request["request_id"][1:])))
        self.tell(f"actor {step.actor} sends {brief(request)}", at_ms)
        return self.core.handle(request, at_ms)

    def compare(self, outcomes: list[Outcome], look: Look) -> Difference | None:
        """Keep the outcomes that are the broker's; return how the nearest differs if none is.

        The time of this `look` is the clock's.
        """
        result = self.result
        result.moves.append(Look(look.at_ms - self._start_ms, look.answers, look.group))
        for request_id, answer in look.answers.items():
            self.tell(f"  the broker answers {request_id}: {brief(answer)}", look.at_ms)
        kept, lost = [], []
        for outcome in outcomes:
            ids = self._ids.copy()
            if differences := list(self._judge(outcome, look, ids)):
                lost.append((len(differences), differences[0], outcome))
            else:
                kept.append((outcome, ids))
        if not kept:
            _, difference, nearest = min(lost, key=lambda each: each[0])
            self.tell(f"  the core: {brief(self.core.look(nearest.state))}", look.at_ms)
            for request_id, answer in nearest.answers.items():
                self.tell(f"  the core answers {request_id}: {brief(answer)}", look.at_ms)
            return difference
        result.comparisons += 1
        before = self.core.group
        for request_id, answer in look.answers.items():
            api = self._asked[request_id][1]["api"]
            result.answered[str(before.state) if before else "none", api, answer["error_code"]] += 1
        self._ids = kept[0][1]
        self._clients = {
            member["group_instance_id"]: member["client_id"]
            for member in look.group["members"]
            if member["group_instance_id"] is not None
        }
        self.core.keep([outcome for outcome, _ in kept])
        for request_id, answer in kept[0][0].answers.items():
            step, request = self._asked[request_id]
            self._cast[step.actor].hear(request, answer)
            result.answers[request_id] = answer
        group = self.core.group
        self.tell(f"  {'no group' if group is None else f'{group.state} {group.generation_id}'}", look.at_ms)
        return None

    def is_one_of(self, outcomes: list[Outcome], look: Look) -> bool:
        """Whether one of `outcomes` is what `look` shows."""
        return any(not any(self._judge(outcome, look, self._ids.copy())) for outcome in outcomes)

    def tell(self, what: str, at_ms: int) -> None:
        """Note it for people."""
        self.result.story.append(f"{at_ms - self._start_ms:6} {self._ids.named(what)}")

    def _judge(self, outcome: Outcome, look: Look, ids: Ids) -> Iterator[Difference]:
        """Say how `outcome` differs from what the broker did. `ids` learns of new ones."""
        for request_id in sorted(outcome.answers.keys() ^ look.answers.keys()):
            kind = f"{self._asked[request_id][1]['api']}, who is answered"
            if request_id in look.answers:
                yield Difference(kind, f"{request_id}: {look.answers[request_id]['error_code']}", "no answer")
            else:
                yield Difference(
                    kind, "no answer", f"{request_id}: {outcome.answers[request_id]['error_code']}"
                )
        ours = self.core.look(outcome.state)
        first_clients = {} if self._known.shows_clients else self._first_clients(ours)
        _show_clients(first_clients, ours)
        # First, because it tells whose ids are whose; but an answer says more.
        described = list(ids.pair_descriptions(ours, look.group))
        for request_id in sorted(outcome.answers.keys() & look.answers.keys()):
            answer = outcome.answers[request_id]
            if answer["api"] == "describe_group":
                _show_clients(first_clients, answer)
            yield from ids.pair_answers(answer, look.answers[request_id])
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


def _show_clients(clients: dict[str, str], description: dict[str, Any]) -> None:
    for member in description["members"]:
        member["client_id"] = clients.get(member["member_id"], member["client_id"])
