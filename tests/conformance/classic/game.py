"""The game of the classic protocol: what was asked, what may have come of it, and what the broker shows.

It neither waits nor asks: `driver.py` does so with a live broker, and a record knows what one has shown.
After each request, and after each deadline, the broker has to have given the answers that the core gives, no
others, has to describe the group as the core does, and to have the same offsets committed.

Member ids are the broker's own. `Ids` pairs them with the core's as they are told.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from kafka.admin import KafkaAdminClient

from tests.conformance.classic.actors import Cast
from tests.conformance.classic.client import ClassicClient
from tests.conformance.classic.core import Core
from tests.conformance.classic.differences import CLIENT_OF_A_STATIC_MEMBER, DIFFERENCES
from tests.conformance.classic.driver import Driver
from tests.conformance.classic.generator import random_sequence
from tests.conformance.classic.ids import Ids
from tests.conformance.classic.moves import Look, Move, Sent
from tests.conformance.classic.scripted import FOLDER, PLAYED
from tests.conformance.classic.sequence import PARTITIONS, TOPICS, Step
from tests.conformance.classic.setups import SETUPS
from tests.conformance.classic.steps import script
from tests.conformance.compare import Difference, brief
from tests.conformance.game import Game
from tests.conformance.sequence import Sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.classic.core import Outcome
    from tests.conformance.game import Topic

__all__ = ["ClassicGame", "topic_of"]


def topic_of(setup: str) -> str:
    """Where the requests lie for the core."""
    return f"requests.{setup}"


class ClassicGame(Game):
    """One sequence of the classic protocol in play."""

    folder = FOLDER
    jars = "broker"
    setups = SETUPS
    client = ClassicClient
    drawn_at_a_time, scripts_at_a_time = 24, 12
    step = Step
    script = staticmethod(script)
    draw = staticmethod(random_sequence)
    differences = DIFFERENCES
    played = PLAYED
    record = tuple[str, Sequence[Step], list[Move]]
    core: Core

    def __init__(self, *arguments: Any, partition: int = 0, **named: Any) -> None:
        """`partition` is where the requests lie for the core, which makes member ids of it."""
        super().__init__(*arguments, **named)
        topic = topic_of(self.result.sequence.setup)
        self.core = Core(self.group_id, self.setup.core, self.known.undo, topic, partition)
        self.cast = Cast()
        self._ids = Ids()
        self._asked: dict[str, tuple[Step, dict[str, Any]]] = {}
        self._clients: dict[str, str] = {}
        self._shown: dict[str, Any] = {}

    @staticmethod
    def make_topics(bootstrap_servers: str) -> dict[str, Topic]:
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
            admin.create_topics({topic: {"num_partitions": PARTITIONS} for topic in TOPICS})
        return {}

    @staticmethod
    def mark(sequence: Sequence[Any]) -> Sequence[Any]:
        return sequence

    async def play(self, client: ClassicClient) -> None:
        driver = Driver(self, client)
        try:
            for number in range(len(self.result.sequence.steps)):
                await driver.play(number)
            await driver.finish()
        finally:
            driver.close()

    def replay(self, moves: list[Move]) -> None:
        outcomes: list[Outcome] | None = None
        shown: dict[str, Any] = {}
        for move in moves:
            at_ms = self.start_ms + move.at_ms
            if isinstance(move, Sent):
                if (request := self.request(move.step)) is None:
                    raise ValueError(f"step {move.step} sends nothing; record it again")
                outcomes = self.sent(request, at_ms)
            else:
                outcomes = self.core.pass_time(at_ms, outcomes)
                shown = shown | move.group
                if difference := self.compare(outcomes, Look(at_ms, move.answers, shown)):
                    raise difference
                outcomes = None

    def to_broker(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the request with the broker's ids."""
        return self._ids.to_broker(request)

    def sent(self, request: dict[str, Any], at_ms: int) -> list[Outcome]:
        """Return all that may come of `request`, which was sent at `at_ms`."""
        number = int(request["request_id"][1:])
        step = self.result.sequence.steps[number]
        self._asked[request["request_id"]] = (step, request)
        self.result.moves.append(Sent(at_ms - self.start_ms, number))
        self.tell(f"actor {step.actor} sends {brief(request)}", at_ms)
        return self.core.handle(request, at_ms)

    def compare(self, outcomes: list[Outcome], look: Look) -> Difference | None:
        """Keep the outcomes that are the broker's; return how the nearest differs if none is.

        The time of this `look` is the clock's.
        """
        result = self.result
        changed = {name: value for name, value in look.group.items() if self._shown.get(name, ...) != value}
        result.moves.append(Look(look.at_ms - self.start_ms, look.answers, changed))
        self._shown = look.group
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
            self.cast[step.actor].hear(request, answer)
            result.answers[request_id] = answer
        group = self.core.group
        self.tell(f"  {'no group' if group is None else f'{group.state} {group.generation_id}'}", look.at_ms)
        return None

    def is_one_of(self, outcomes: list[Outcome], look: Look) -> bool:
        """Whether one of `outcomes` is what `look` shows."""
        return any(not any(self._judge(outcome, look, self._ids.copy())) for outcome in outcomes)

    def tell(self, what: str, at_ms: int) -> None:
        super().tell(self._ids.named(what), at_ms)

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
        first_clients = {} if self.known.counts(CLIENT_OF_A_STATIC_MEMBER) else self._first_clients(ours)
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
