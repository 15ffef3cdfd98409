"""The core's side: one group, played through `step`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.responses import AnyResponse
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from group_coordinator.coordinator_state.stored import decode_group
from tests.conformance.consumer.client import DESCRIBE_VERSION
from tests.conformance.consumer.told import group_in_short
from tests.conformance.core import SECRET, CoreFailed
from tests.conformance.wire import FETCH_VERSION

if TYPE_CHECKING:
    from tests.conformance.consumer.setups import Setup
    from tests.conformance.consumer.topics import Topic, Topics

_START_MS = 1_000_000
_SOON_MS = 5
"""What a classic request is answered with when time passes comes so soon."""
_responses = msgspec.json.Decoder(AnyResponse)


class Core:
    """One group. Times in ms since the sequence began."""

    def __init__(self, group_id: str, setup: Setup, topics: Topics, *, shows_gone_topics: bool) -> None:
        self._group_id = group_id
        self._key = group_id.encode()
        self._config = setup.core
        self._topics = topics
        self._shows_gone_topics = shows_gone_topics
        self._state: bytes | None = None
        self._ids: dict[str, str] = {}
        """Of those that a coordinator has made up: the broker's, and the core's."""
        self.log: list[Record] = []

    @property
    def next_deadline_ms(self) -> int | None:
        """When something is due."""
        deadline_ms = self._step([], 0).deadline_ms
        return None if deadline_ms is None else deadline_ms - _START_MS

    def pass_time(self, to_ms: int) -> None:
        """Let time pass."""
        self._state = self._step([], _START_MS + to_ms).state

    def answer(self, request: dict[str, Any], theirs: dict[str, Any], at_ms: int) -> dict[str, Any] | None:
        """Answer what the broker has answered with `theirs`. Ids that are made up are then known as its.

        None: groups are listed by their pictures, and not by the core; and a request about another group.
        """
        if request["api"] == "list_groups":
            return None
        ours = self._told(self._renamed(request, self._ids), at_ms, is_kept=True)
        their_id, our_id = theirs.get("member_id"), ours.get("member_id")
        if their_id and our_id and their_id not in self._ids and their_id != request.get("member_id"):
            self._ids[their_id] = our_id
        answer = self._in_brokers_terms(ours)
        return self._as_described(answer) if request["api"] == "consumer_group_describe" else answer

    def look(self, at_ms: int) -> dict[str, Any]:
        """Show the group, with all that is committed."""
        described, fetched = (
            self._in_brokers_terms(self._told(fields | self._envelope(), at_ms, is_kept=False))
            for fields in (
                {"api": "consumer_group_describe", "api_version": DESCRIBE_VERSION},
                {"api": "offset_fetch", "api_version": FETCH_VERSION},
            )
        )
        return group_in_short(self._as_described(described), fetched, self._topics)

    def _as_described(self, described: dict[str, Any]) -> dict[str, Any]:
        """The description as a broker gives it: it leaves out topics that are gone."""
        if self._shows_gone_topics:
            return described
        known = {topic_id for topic_id, _ in self._topics.known.values()}
        members = [
            member
            | {
                name: [each for each in member[name] if each["topic_id"] in known]
                for name in ("assignment", "target_assignment")
            }
            for member in described["members"]
        ]
        return described | {"members": members}

    def change(self, letter: str, topic: Topic | None, at_ms: int) -> None:
        """Tell the group of a topic as it is now, as the watcher does."""
        group = None if self._state is None else decode_group(self._state)
        table = getattr(group, "topics", None)
        if table is None:
            return
        name = self._topics.name(letter)
        facts: list[dict[str, Any]] = []
        if topic is not None:
            facts = [{"name": name, "topic_id": topic[0], "partitions": topic[1]}]
        gone = [name] if topic is None else []
        request = {"api": "topic_metadata", "based_on": table.version, "topics": facts, "gone": gone}
        result = self._step([self._record(request | self._envelope(), at_ms)], _START_MS + at_ms)
        if result.rejections:
            raise CoreFailed(f"topic metadata was refused: {result.rejections}")
        self._state = result.state

    def _envelope(self) -> dict[str, Any]:
        return {"request_id": "", "client_id": "", "group_id": self._group_id}

    def _told(self, request: dict[str, Any], at_ms: int, *, is_kept: bool) -> dict[str, Any]:
        record = self._record(request, at_ms)
        result = self._step([record], _START_MS + at_ms)
        answers = _answers(result)
        if not answers:
            # A first classic join is answered when its delay, which is none, has passed.
            result = self._step([record], _START_MS + at_ms + _SOON_MS)
            answers = _answers(result)
        if is_kept:
            self.log.append(record)
            self._state = result.state
        if len(answers) != 1:
            raise CoreFailed(f"{len(answers)} answers to {request}: {result.rejections}")
        return answers[0]

    def _record(self, request: dict[str, Any], at_ms: int) -> Record:
        value = msgspec.json.encode(request)
        return Record("requests", 0, len(self.log), _START_MS + at_ms, self._key, value)

    def _step(self, records: list[Record], to_ms: int) -> StepResult:
        try:
            return step(self._key, self._state, records, to_ms, self._config, SECRET)
        except Exception as error:
            raise CoreFailed(f"{type(error).__name__}: {error}") from error

    def _in_brokers_terms(self, answer: dict[str, Any]) -> dict[str, Any]:
        renamed: dict[str, Any] = self._renamed(answer, {ours: theirs for theirs, ours in self._ids.items()})
        return renamed

    def _renamed(self, value: Any, ids: dict[str, str]) -> Any:
        match value:
            case str():
                return ids.get(value, value)
            case dict():
                return {name: self._renamed(each, ids) for name, each in value.items()}
            case list():
                return [self._renamed(each, ids) for each in value]
        return value


def _answers(result: StepResult) -> list[dict[str, Any]]:
    return [
        msgspec.to_builtins(_responses.decode(output.value or b""), builtin_types=(bytes,))
        for output in result.outputs
        if output.channel is Channel.RESPONSES
    ]
