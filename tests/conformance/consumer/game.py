"""The game of the consumer protocol: what is asked next, and what the broker has answered and shown.

Nothing waits in the consumer protocol: each request is answered before the next. So a game is a list of
moves, each a step with its answer and what has changed of the group. `driver.py` makes them with a live
broker, a record knows those of one. The core has to say and show the same.
"""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tests.conformance.compare import Difference, brief
from tests.conformance.consumer.actors import Cast
from tests.conformance.consumer.client import ConsumerClient
from tests.conformance.consumer.core import Core
from tests.conformance.consumer.differences import DIFFERENCES, GONE_TOPICS
from tests.conformance.consumer.driver import Driver
from tests.conformance.consumer.generator import any_sequence, random_sequence, sequence_with_patterns
from tests.conformance.consumer.resolutions import Resolutions
from tests.conformance.consumer.sequence import CHANGES, RESOLVE, Step
from tests.conformance.consumer.setups import SETUPS, ends_soon
from tests.conformance.consumer.steps import script
from tests.conformance.consumer.told import answer_in_short, patch, patched
from tests.conformance.consumer.topics import Topics, make_topics
from tests.conformance.differences import shown
from tests.conformance.game import Game, Inconclusive, Topic
from tests.conformance.sequence import Sequence, write_sequence
from tests.conformance.steps import scripts_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.consumer.told import Short
    from tests.conformance.wire import Answer

__all__ = ["ConsumerGame"]

_FOLDER = Path(__file__).parent
_DRAWN = range(45)
_DRAWN_WITH_PATTERNS = range(12)


class Move(msgspec.Struct, array_like=True, frozen=True, omit_defaults=True):
    """A step was played."""

    at_ms: int
    """When its request was sent, since the sequence began."""
    step: int
    answer: Any
    """In short (`told.py`). Of a step that changes a topic: what there is now. Of `resolve`: the patterns
    that are resolved then, and the letters of what each matches."""
    shown: dict[str, Any]
    """What has changed of the group since the move before."""


class ConsumerGame(Game):
    """One sequence of the consumer protocol in play."""

    folder = _FOLDER
    jars = "broker-4.4"
    setups = SETUPS
    client = ConsumerClient
    drawn_at_a_time = scripts_at_a_time = 6
    step = Step
    script = staticmethod(script)
    draw = staticmethod(any_sequence)
    differences = DIFFERENCES
    played = (
        {
            f"{section}: {name}": Sequence(setup, script(it))
            for setup, section, name, it in scripts_in(_FOLDER)
        }
        | {name: difference.shown_by for name, difference in shown(DIFFERENCES).items()}
        | {f"drawn: {seed}": random_sequence(random.Random(seed)) for seed in _DRAWN}
        | {
            f"drawn with patterns: {seed}": sequence_with_patterns(random.Random(seed))
            for seed in _DRAWN_WITH_PATTERNS
        }
    )
    record = tuple[str, int, dict[str, Topic], list[Move]]
    make_topics = staticmethod(make_topics)
    core: Core

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.topics = Topics(self.result.topics, self.group_id)
        hides = not self.known.counts(GONE_TOPICS)
        self.core = Core(self.group_id, self.setup.core, self.topics, hides_gone_topics=hides)
        self.cast = Cast(self.topics)
        self.resolutions = Resolutions()
        self._shown: dict[str, Any] = {}

    @staticmethod
    def mark(sequence: Sequence[Any]) -> int:
        return zlib.crc32(write_sequence(sequence).encode())

    async def play(self, client: ConsumerClient) -> None:
        driver = Driver(self, client)
        try:
            for number in range(len(self.result.sequence.steps)):
                await driver.play(number)
        except Difference as difference:
            if ends_soon(self.setup):
                raise Inconclusive("the broker may have been held up", difference) from difference
            raise

    def replay(self, moves: list[Move]) -> None:
        shown: dict[str, Any] = {}
        for move in moves:
            shown = patched(shown, move.shown)
            self._replay(move, shown, self.start_ms + move.at_ms)

    def _replay(self, move: Move, shown: dict[str, Any], at_ms: int) -> None:
        self.core.pass_time(at_ms)
        api = self.result.sequence.steps[move.step].api
        if api in CHANGES:
            topic = None if move.answer is None else (str(move.answer[0]), int(move.answer[1]))
            self.changed(move.step, topic, at_ms)
        elif api == RESOLVE:
            self.resolved(move.step, move.answer, shown, at_ms)
        elif (request := self.request(move.step)) is None:
            self.waited(move.step, shown, at_ms)
        else:
            self.told(move.step, request, move.answer, shown, at_ms)

    def in_short(self, request: dict[str, Any], answer: dict[str, Any]) -> Short:
        """What is compared of an answer."""
        return answer_in_short(
            request, answer, self.topics, self.setup.core.group_consumer_heartbeat_interval_ms
        )

    def changed(self, number: int, topic: Topic | None, at_ms: int) -> None:
        """Take note of what a step has made of its topic."""
        letter = self.result.sequence.steps[number].names or ""
        self.topics.learn(letter, topic)
        self.resolutions.is_outdated |= topic is not None
        self.result.moves.append(Move(at_ms - self.start_ms, number, topic, {}))
        self.tell(f"{letter} is now {topic}", at_ms)
        self.core.change(letter, topic, at_ms)

    def patterns(self) -> dict[str, str]:
        """The patterns of the group's members, and the letters of what each matches."""
        group = self.core.group
        resolved = {} if group is None else group.subscriptions.resolved
        texts = [self.topics.pattern_text(pattern.text) for pattern in resolved]
        return {text: self.topics.matched(text) for text in texts}

    def resolved(self, number: int, patterns: dict[str, str], shown: dict[str, Any], at_ms: int) -> None:
        """Take note of what the broker shows when it has resolved these patterns, if any."""
        self.core.pass_time(at_ms)
        self.tell(f"resolved: {patterns}", at_ms)
        self._note(number, patterns, shown, at_ms)
        if patterns:
            self.core.resolve(patterns, at_ms)
        self._judge(None, None, self.core.look(at_ms), at_ms)

    def is_seen(self, number: int) -> bool:
        """Whether the broker is looked at after a step: not if it may be resolving patterns meanwhile."""
        following = self.result.sequence.steps[number + 1 : number + 2]
        return not following or following[0].api != RESOLVE

    def waited(self, number: int, shown: dict[str, Any], at_ms: int) -> None:
        """Take note of what the broker shows when time has passed."""
        self._note(number, {}, shown, at_ms)
        self._judge(None, None, self.core.look(at_ms), at_ms)

    def told(
        self,
        number: int,
        request: dict[str, Any],
        answer: Short,
        shown: dict[str, Any] | None,
        at_ms: int,
        heard: Answer | None = None,
    ) -> None:
        """Take note of what the broker has answered, in short, and shown, if it was looked at.

        `heard`: the whole answer; None: that of the core says the same. Raises Difference if it does not.
        """
        state = str(self._shown.get("group", "none")).partition(" ")[0]
        self.result.answered[state, request["api"], _error(answer)] += 1
        step = self.result.sequence.steps[number]
        self.tell(f"actor {step.actor} sends {brief(request)}", at_ms)
        self.tell(f"  the broker answers {answer}", at_ms)
        is_seen = self.is_seen(number)
        self._note(number, answer, self._shown if shown is None else shown, at_ms)
        before, is_beat = self.core.group, request["api"] == "consumer_group_heartbeat"
        ours = self.core.answer(request, answer if isinstance(answer, dict) else {}, at_ms)
        if heard is not None and is_beat and request["member_epoch"] >= 0 and not _error(answer):
            self.resolutions.beat(before, self.core.group, at_ms, heard.at_ms)
            if self.resolutions.may_run and is_seen:
                raise Inconclusive("the broker resolves patterns, and nothing waits for it")
        ours_in_short = None if ours is None else self.in_short(request, ours)
        self._judge(answer, ours_in_short, self.core.look(at_ms) if is_seen else self._shown, at_ms)
        if (fields := heard.fields if heard else ours) is not None:
            self.cast[step.actor].hear(request, fields, self.topics)

    def _note(self, number: int, answer: Short, shown: dict[str, Any], at_ms: int) -> None:
        self.result.moves.append(Move(at_ms - self.start_ms, number, answer, patch(self._shown, shown)))
        if shown != self._shown:
            self.tell(f"  {_group_line(shown)}", at_ms)
        self._shown = shown

    def _judge(self, theirs: Short | None, ours: Short | None, shown: dict[str, Any], at_ms: int) -> None:
        """Hold what the core answers and shows beside what the broker does. `ours` None: it says nothing."""
        if (ours is not None and ours != theirs) or shown != self._shown:
            self.tell(f"  the core answers {ours}", at_ms)
            self.tell(f"  {_group_line(shown)}", at_ms)
        if ours is not None:
            _compare(self.result.sequence.steps[self.result.moves[-1].step].api, theirs, ours)
        _compare("group", self._shown, shown)
        self.result.comparisons += 1


def _compare(where: str, theirs: Any, ours: Any) -> None:
    """Raise Difference where the two first differ."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            within = where if where.endswith("members") else f"{where}, {name}"
            _compare(within, theirs.get(name), ours.get(name))
    elif theirs != ours:
        raise Difference(where, theirs, ours)


def _error(answer: Short) -> int:
    """The error code of an answer."""
    if isinstance(answer, str):
        return int(answer[1:]) if answer.startswith("!") else 0
    return int(answer.get("error_code", 0))


def _group_line(shown: Mapping[str, Any]) -> str:
    members = "; ".join(
        f"{member_id}{it['at']}" for member_id, it in sorted(shown.get("members", {}).items())
    )
    return f"{shown['group']} [{members}] offsets={shown['offsets']}"
