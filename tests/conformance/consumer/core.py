"""The core's side of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.stored import decode_group
from tests.conformance import core
from tests.conformance.compare import Difference, renamed
from tests.conformance.consumer.client import DESCRIBE_VERSION
from tests.conformance.consumer.told import group_in_short
from tests.conformance.core import answers_of
from tests.conformance.wire import FETCH_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.consumer.topics import Topics
    from tests.conformance.game import Topic

__all__ = ["Core"]

_SOON_MS = 5
"""What a classic request is answered with when time passes comes so soon."""


class Core(core.Core):
    """One group. `hides_gone_topics`: a description leaves out topics that are gone, as a broker's does."""

    def __init__(
        self,
        group_id: str,
        config: GroupConfig,
        topics: Topics,
        *,
        hides_gone_topics: bool,
    ) -> None:
        super().__init__(group_id, config)
        self._topics = topics
        self._hides_gone_topics = hides_gone_topics
        self._state: bytes | None = None
        self._ids: dict[str, str] = {}
        """Of those that a coordinator has made up: the broker's, and the core's."""

    @property
    def group(self) -> ConsumerGroup | None:
        """The group as it is, if it is one of the consumer protocol."""
        group = None if self._state is None else decode_group(self._state)
        return group if isinstance(group, ConsumerGroup) else None

    @property
    def next_deadline_ms(self) -> int | None:
        """When something is due."""
        return self._step(self._state, [], 0).deadline_ms

    def pass_time(self, to_ms: int) -> None:
        """Let time pass."""
        self._state = self._step(self._state, [], to_ms).state

    def answer(self, request: dict[str, Any], theirs: dict[str, Any], at_ms: int) -> dict[str, Any] | None:
        """Answer what the broker has answered with `theirs`. Ids that are made up are then known as its.

        None: groups are listed by their pictures, and not by the core; and a request about another group.
        """
        if request["api"] == "list_groups":
            return None
        ours = self._told(renamed(request, self._ids), at_ms, is_kept=True)
        their_id, our_id = theirs.get("member_id"), ours.get("member_id")
        if their_id and our_id and their_id not in self._ids and their_id != request.get("member_id"):
            self._ids[their_id] = our_id
        answer = self._in_brokers_terms(ours)
        return self._as_described(answer) if request["api"] == "consumer_group_describe" else answer

    def look(self, at_ms: int) -> dict[str, Any]:
        """Show the group, with all that is committed."""
        described, fetched = (
            self._in_brokers_terms(self._told(self._question(api, version), at_ms, is_kept=False))
            for api, version in (
                ("consumer_group_describe", DESCRIBE_VERSION),
                ("offset_fetch", FETCH_VERSION),
            )
        )
        return group_in_short(self._as_described(described), fetched, self._topics)

    def _as_described(self, described: dict[str, Any]) -> dict[str, Any]:
        if not self._hides_gone_topics:
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
        if (group := self.group) is None:
            return
        name = self._topics.name(letter)
        facts: list[dict[str, Any]] = []
        if topic is not None:
            facts = [{"name": name, "topic_id": topic[0], "partitions": topic[1]}]
        gone = [name] if topic is None else []
        self._tell_topics(group, at_ms, topics=facts, gone=gone)

    def resolve(self, patterns: Mapping[str, str], at_ms: int) -> None:
        """Tell the group what patterns of its members match, by letter, as the watcher does."""
        if (group := self.group) is None:
            return
        names = {text: self._topics.names(letters) for text, letters in patterns.items()}
        told = [{"pattern": self._topics.pattern(text), "topics": those} for text, those in names.items()]
        facts = self._topics.hints(sorted({name for those in names.values() for name in those}))
        self._tell_topics(group, at_ms, topics=facts, gone=[], patterns=told)

    def _tell_topics(self, group: ConsumerGroup, at_ms: int, **told: Any) -> None:
        request = self._question("topic_metadata", 0, based_on=group.topics.version, **told)
        result = self._step(self._state, [self._record(request, at_ms)], at_ms)
        if result.rejections:
            raise Difference("the core failed", "no failure", f"topic metadata: {result.rejections}")
        self._state = result.state

    def _told(self, request: dict[str, Any], at_ms: int, *, is_kept: bool) -> dict[str, Any]:
        record = self._record(request, at_ms)
        # A first classic join is answered when its delay, which is none, has passed.
        for to_ms in (at_ms, at_ms + _SOON_MS):
            result = self._step(self._state, [record], to_ms)
            if answers := answers_of(result):
                break
        if is_kept:
            self.log.append(record)
            self._state = result.state
        if len(answers) != 1:
            raise Difference("the core failed", "one answer", f"{answers} to {request}: {result.rejections}")
        return next(iter(answers.values()))

    def _in_brokers_terms(self, answer: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = renamed(answer, {ours: theirs for theirs, ours in self._ids.items()})
        return told
