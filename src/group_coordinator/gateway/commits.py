"""Commits of offsets: what is committed for topics that exist, in as many records as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.topics import divided, in_parts, merged, metadata_of, needed_by
from group_coordinator.gateway.translation import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from group_coordinator.coordinator_state.offsets.still_there import Found
    from group_coordinator.coordinator_state.requests import AnyRequest, OffsetCommitRequest
    from group_coordinator.gateway.client import Client
    from group_coordinator.gateway.outgoing import Place
    from group_coordinator.gateway.rules import Rules
    from group_coordinator.gateway.topics import Topics

    _Respond: TypeAlias = Callable[[list[Any]], None]


class Commits:
    """The commits of all clients at one gateway.

    `topics` has what Kafka says; None: all is let pass. `send` asks the stream, and responds with what it
    says to each (`Local`). `hold` holds a place in a group's lane.
    `next_request_id` makes an id for each record but the first. `prefix` stands before all group ids.
    """

    def __init__(
        self,
        rules: Rules,
        topics: Topics | None,
        send: Callable[[Sequence[AnyRequest], Client, float, _Respond, Place | None], None],
        hold: Callable[[str, float], Place],
        next_request_id: Callable[[], str],
        prefix: str,
    ) -> None:
        self._rules, self._topics, self._prefix = rules, topics, prefix
        self._send, self._hold, self._next_request_id = send, hold, next_request_id

    def take(self, commit: OffsetCommitRequest, client: Client, now_s: float, respond: _Respond) -> None:
        """Commit for the topics and partitions that exist, once that is known."""
        topics = self._topics
        if topics is None or not self._may_look_up(commit):
            self._commit(commit, client, now_s, respond)
            return
        place = self._hold(commit.group_id, now_s)

        def judged(found: Mapping[str, Found]) -> None:
            there, absent = divided(commit, found)

            def answered(responses: list[Any]) -> None:
                (response,) = responses
                response.topics = merged(absent, response.topics)
                respond(responses)

            if there.topics:
                self._commit(there, client, now_s, answered, place)
            else:
                # Like a broker, which does not ask the coordinator then.
                place([])
                answered([commit.refused(Errors.NONE, None)])

        topics.find(needed_by(commit), now_s, client.later(judged))

    def _may_look_up(self, commit: OffsetCommitRequest) -> bool:
        if commit.group_id == self._prefix:
            return False
        return commit.partitions_named <= self._rules.config.max_request_partitions

    def _commit(
        self,
        commit: OffsetCommitRequest,
        client: Client,
        now_s: float,
        respond: _Respond,
        place: Place | None = None,
    ) -> None:
        """Commit in as many records as it takes: each partition has a result of its own."""
        if sum(map(len, metadata_of(commit))) > self._rules.most_metadata:
            if place is not None:
                place([])
            respond([refusal(commit, self._rules.too_large(commit, now_s))])
            return
        parts = in_parts(commit, self._rules.config.max_request_bytes, self._next_request_id)

        def answered(responses: list[Any]) -> None:
            whole, *others = responses
            if others:
                whole.topics = merged([topic for each in responses for topic in each.topics], ())
            respond([whole])

        self._send(parts, client, now_s, answered, place)
