"""One sequence in play: what is asked next, and what the broker has answered and shown.

Nothing waits in the consumer protocol: each request is answered before the next. So a game is a list of
moves, each a step with its answer and what has changed of the group. `driver.py` makes them with a live
broker, `recorded.py` knows those of one. The core, if it plays along, has to say and show the same.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from tests.conformance.compare import Difference
from tests.conformance.consumer.actors import Cast
from tests.conformance.consumer.core import Core
from tests.conformance.consumer.setups import SETUPS
from tests.conformance.consumer.told import answer_in_short, patch
from tests.conformance.consumer.topics import Topic, Topics
from tests.conformance.core import CoreFailed
from tests.conformance.game import Inconclusive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.conformance.consumer.differences import Known
    from tests.conformance.consumer.sequence import Sequence
    from tests.conformance.consumer.told import Short

__all__ = ["CHANGES", "Game", "Move", "Result"]

CHANGES = ("make", "grow", "drop")
"""Steps that change a topic, and ask the group nothing."""


class Move(msgspec.Struct, array_like=True, frozen=True, omit_defaults=True):
    """A step was played."""

    at_ms: int
    """When its request was sent, since the sequence began."""
    step: int
    answer: Any
    """In short (`told.py`). Of a step that changes a topic: what there is now."""
    shown: dict[str, Any]
    """What has changed of the group since the move before."""


@dataclass
class Result:
    """What came of a sequence."""

    sequence: Sequence
    topics: Mapping[str, Topic]
    """The topics that were there at first."""
    verdict: str = "same"
    """`same`, `different`, `known` or `inconclusive`."""
    reason: str = ""
    difference: Difference | None = None
    story: list[str] = field(default_factory=list)
    """What was sent and answered, to be read by people."""
    moves: list[Move] = field(default_factory=list)
    """The same, to be played again."""
    answered: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """How often: group's state before, API, kind of answer."""

    def __str__(self) -> str:
        story = "\n".join(f"    {line}" for line in self.story)
        return f"{self.verdict}: {self.reason}\n{story}\n  {msgspec.json.encode(self.sequence).decode()}"


class _MetKnown(Exception):  # noqa: N818 - it says what happened
    """A known difference shows from here on; its name is the message."""


class Game:
    """One sequence in play. `known` is what the core may do otherwise; None: it does not play along."""

    def __init__(
        self, sequence: Sequence, shared: Mapping[str, Topic], group_id: str, known: Known | None = None
    ) -> None:
        self.result = Result(sequence, dict(shared))
        self.topics = Topics(shared, group_id)
        self.setup = SETUPS[sequence.setup]
        self.core = None
        if known is not None:
            self.core = Core(group_id, self.setup, self.topics, shows_gone_topics=known.shows_gone_topics)
        self._known = known
        self._group_id = group_id
        self._cast = Cast(self.topics)
        self._shown: dict[str, Any] = {}

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Within this, what is raised is the verdict."""
        result = self.result
        try:
            yield
        except Difference as difference:
            result.verdict, result.reason, result.difference = "different", str(difference), difference
        except CoreFailed as failure:
            result.difference = Difference("the core failed", "", str(failure))
            result.verdict, result.reason = "different", str(result.difference)
        except _MetKnown as known:
            result.verdict, result.reason = "known", str(known)
        except Inconclusive as inconclusive:
            result.verdict, result.reason = "inconclusive", str(inconclusive)
            result.difference = inconclusive.difference

    def request(self, number: int, at_ms: int) -> dict[str, Any] | None:
        """The request of the step with this number, which is sent at `at_ms`; None if it has none."""
        request = self._cast.request(self.result.sequence.steps[number], self._group_id, f"r{number}")
        if request is not None and self._known is not None and self.core is not None:
            # Sessions may have ended since something was shown.
            shown = self.core.look(at_ms) if self.setup.ends_soon else self._shown
            name = self._known.begins(shown, request, self.setup)
            if name is not None:
                raise _MetKnown(name)
        return request

    def in_short(self, request: dict[str, Any], answer: dict[str, Any]) -> Short:
        """What is compared of an answer."""
        return answer_in_short(request, answer, self.topics, self.setup.heartbeat_interval_ms)

    def changed(self, number: int, topic: Topic | None, at_ms: int) -> None:
        """Take note of what a step has made of its topic."""
        letter = self.result.sequence.steps[number].names or ""
        self.topics.learn(letter, topic)
        self.result.moves.append(Move(at_ms, number, topic, {}))
        self._tell(at_ms, f"{letter} is now {topic}")
        if self.core is not None:
            self.core.change(letter, topic, at_ms)

    def waited(self, number: int, shown: dict[str, Any], at_ms: int) -> None:
        """Take note of what the broker shows when time has passed."""
        self._note(number, {}, shown, at_ms)
        if self.core is not None:
            self._judge(None, None, self.core.look(at_ms), at_ms)

    def told(
        self,
        number: int,
        request: dict[str, Any],
        answer: Short,
        shown: dict[str, Any],
        at_ms: int,
        heard: dict[str, Any] | None = None,
    ) -> None:
        """Take note of what the broker has answered, in short, and shown.

        `heard`: the whole answer; None: that of the core says the same. Raises Difference if it does not.
        """
        state = str(self._shown.get("group", "none")).partition(" ")[0]
        self.result.answered[state, request["api"], _kind(answer)] += 1
        step = self.result.sequence.steps[number]
        self._tell(at_ms, f"{step.actor}: {_brief(request)}")
        self._tell(at_ms, f"  the broker answers {answer}")
        self._note(number, answer, shown, at_ms)
        if self.core is not None:
            ours = self.core.answer(request, answer if isinstance(answer, dict) else {}, at_ms)
            ours_in_short = None if ours is None else self.in_short(request, ours)
            self._judge(answer, ours_in_short, self.core.look(at_ms), at_ms)
            heard = heard or ours
        if heard is not None:
            self._cast[step.actor].hear(request, heard, self.topics)

    def _note(self, number: int, answer: Short, shown: dict[str, Any], at_ms: int) -> None:
        self.result.moves.append(Move(at_ms, number, answer, patch(self._shown, shown)))
        if shown != self._shown:
            self._tell(at_ms, f"  {_group_line(shown)}")
        self._shown = shown

    def _judge(self, theirs: Short | None, ours: Short | None, shown: dict[str, Any], at_ms: int) -> None:
        """Hold what the core answers and shows beside what the broker does. `ours` None: it says nothing."""
        if (ours is not None and ours != theirs) or shown != self._shown:
            self._tell(at_ms, f"  the core answers {ours}")
            self._tell(at_ms, f"  {_group_line(shown)}")
        if ours is not None:
            _compare(self.result.sequence.steps[self.result.moves[-1].step].api, theirs, ours)
        _compare("group", self._shown, shown)

    def _tell(self, at_ms: int, what: str) -> None:
        self.result.story.append(f"{at_ms:6} {what}")


def _compare(where: str, theirs: Any, ours: Any) -> None:
    """Raise Difference where the two first differ."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            within = where if where.endswith("members") else f"{where}, {name}"
            _compare(within, theirs.get(name), ours.get(name))
    elif theirs != ours:
        raise Difference(where, theirs, ours)


def _kind(answer: Short) -> str:
    """What kind of answer it is."""
    if isinstance(answer, str):
        return answer if answer.startswith("!") else "ok"
    return str(answer.get("error_code", "ok"))


_NOT_TOLD = {"api", "api_version", "request_id", "client_id", "client_host", "group_id", "topics"}


def _brief(request: Mapping[str, Any]) -> str:
    said = {name: value for name, value in request.items() if name not in _NOT_TOLD and value is not None}
    if request["api"] == "offset_commit":
        said["topics"] = [
            {it["name"]: [each["partition_index"] for each in it["partitions"]]} for it in request["topics"]
        ]
    fields = " ".join(f"{name}={value}" for name, value in said.items())
    return f"{request['api']} v{request['api_version']} {fields}"


def _group_line(shown: Mapping[str, Any]) -> str:
    members = "; ".join(
        f"{member_id}{it['at']}" for member_id, it in sorted(shown.get("members", {}).items())
    )
    return f"{shown['group']} [{members}] offsets={shown['offsets']}"
