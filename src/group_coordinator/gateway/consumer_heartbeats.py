"""Heartbeats of members of the consumer protocol, on their way to the log and back.

One that only says that its member is alive goes with others. All others go by themselves, with what Kafka
knows of the topics that they name, and with the topics that their pattern matches.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import Resolved, TopicFacts
from group_coordinator.coordinator_state.responses import ConsumerGroupHeartbeatResponse
from group_coordinator.gateway.beat_kinds import Beat, Verdict, small
from group_coordinator.gateway.outgoing import Outgoing, record_of
from group_coordinator.gateway.translation import to_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from group_coordinator.coordinator_state.offsets.still_there import Found
    from group_coordinator.coordinator_state.requests import ConsumerGroupHeartbeatRequest
    from group_coordinator.gateway.beats import Beats
    from group_coordinator.gateway.client import Client
    from group_coordinator.gateway.frames import Request
    from group_coordinator.gateway.group_apis.guarding import Resolution
    from group_coordinator.gateway.outgoing import Place
    from group_coordinator.gateway.renewals import Renewals
    from group_coordinator.gateway.rules import Rules
    from group_coordinator.gateway.topics import Topics

_HINTS_WAIT_S = 1.0
"""The time for Kafka to say what it knows of topics that a member names, if its interval is not short."""
_OF_INTERVAL = 0.5
"""The part of a heartbeat interval in which each heartbeat is answered."""


class ConsumerHeartbeats:
    """The heartbeats of all these members at one gateway.

    `topics` has what Kafka says; None: it is not asked. `hold` holds a place in a group's lane. `prefix`
    stands before all group ids, and clients do not see it.
    """

    def __init__(
        self,
        beats: Beats,
        rules: Rules,
        topics: Topics | None,
        renewals: Renewals,
        hold: Callable[[str, float], Place],
        prefix: str,
    ) -> None:
        self._beats, self._rules, self._topics, self._renewals = beats, rules, topics, renewals
        self._hold, self._prefix = hold, prefix
        self._interval_ms = 0
        self.take_interval(rules.config.group_consumer_heartbeat_interval_ms)

    def take_interval(self, interval_ms: int) -> None:
        """Members are told this interval: each heartbeat is answered well within it."""
        if interval_ms == self._interval_ms:
            return
        self._interval_ms, within_s = interval_ms, _OF_INTERVAL * interval_ms / 1_000
        self._beats.wait_s, self._beats.refuse_s = 0.4 * within_s, 0.6 * within_s
        self.hints_wait_s = min(_HINTS_WAIT_S, 0.4 * within_s)
        """How long Kafka is asked about topics or patterns."""

    def take(
        self,
        request: Request,
        beat: ConsumerGroupHeartbeatRequest,
        client: Client,
        now_s: float,
        reply: Callable[[Any], None],
    ) -> None:
        """Take the heartbeat of a member, or of a program that becomes one. `request`: as it came."""
        self._renewals.heard(client, beat.group_id, beat.member_id)
        # As the client has sent it: what Kafka has said of very many topics need not be looked at again.
        error = self._rules.refuses_to(client.name, beat, record_of(beat), now_s)
        if error is not None:
            self._tell(request, beat, client, reply, Verdict(error.value))
        elif beat.is_bare:
            client.accepted = Beat.of_consumer(beat)
            self.again(client.accepted, lambda told: reply(to_kafka(request, [told])))
        else:
            client.asked = request
            beat = _with_resolution(beat, request.resolved, client)
            self._put_with_hints(beat, client, now_s, partial(self._tell, request, beat, client, reply))

    def again(self, beat: Beat, answer: Callable[[ConsumerGroupHeartbeatResponse], None]) -> None:
        """Take a heartbeat that says that its member is alive."""
        self._beats.add(beat, lambda verdict: answer(self._answer(beat, verdict)))

    def _tell(
        self,
        request: Request,
        beat: ConsumerGroupHeartbeatRequest,
        client: Client,
        reply: Callable[[Any], None],
        verdict: Verdict,
    ) -> None:
        """Answer a heartbeat. If the same bytes come again, they only say that the member is alive."""
        kept = Beat.of_consumer(small(beat))
        if client.asked is request:
            client.asked = None
            if verdict.error_code == Errors.NONE and 0 < beat.epoch == verdict.epoch:
                client.accepted = kept
        reply(to_kafka(request, [self._answer(kept, verdict)]))

    def _answer(self, beat: Beat, verdict: Verdict) -> ConsumerGroupHeartbeatResponse:
        is_error, message = verdict.error_code != Errors.NONE, verdict.message
        if verdict.error_code == Errors.GROUP_ID_NOT_FOUND:
            message = f"Consumer group {beat.request.group_id.removeprefix(self._prefix)} not found."
        return ConsumerGroupHeartbeatResponse(
            request_id=beat.request.request_id,
            client_id=beat.request.client_id,
            group_id=beat.request.group_id,
            error_code=verdict.error_code,
            error=Errors.for_code(verdict.error_code).name,
            error_message=message,
            member_id=None if is_error else verdict.member_id or beat.member.member_id,
            member_epoch=verdict.epoch,
            heartbeat_interval_ms=0 if is_error else self._interval_ms,
            assignment=verdict.assignment,
        )

    # -- to the log ------------------------------------------------------------------------------------

    def _put_with_hints(
        self,
        beat: ConsumerGroupHeartbeatRequest,
        client: Client,
        now_s: float,
        answer: Callable[[Verdict], None],
    ) -> None:
        """Send a heartbeat to the log by itself. If it names topics, it has what Kafka knows of them."""
        place, names = self._hold(beat.group_id, now_s), beat.subscribed_topic_names
        if self._topics is None or not names:
            self._put(beat, client, now_s, answer, place)
            return

        def found(topics: Mapping[str, Found]) -> None:
            hints = [
                TopicFacts(name, it.partitions, it.topic_id)
                for name, it in sorted(topics.items())
                if it.partitions and it.topic_id
            ]
            hinted = msgspec.structs.replace(beat, topics=[*beat.topics, *hints])
            self._put(hinted, client, now_s, answer, place)

        self._topics.find_anew(names, client.later(found), self.hints_wait_s)

    def _put(
        self,
        beat: ConsumerGroupHeartbeatRequest,
        client: Client,
        now_s: float,
        answer: Callable[[Verdict], None],
        place: Place,
    ) -> None:
        record, most_bytes = record_of(beat), self._rules.config.max_request_bytes
        if beat.topics and len(record.value) > most_bytes:
            # Its topics are known later.
            beat = msgspec.structs.replace(beat, topics=[])
            record = record_of(beat)
        if len(record.value) > most_bytes:
            place([])
            answer(Verdict(self._rules.too_large(beat, now_s).value))
            return
        self._beats.add_full(Beat.of_consumer(beat), client.later(answer), now_s)
        place([Outgoing(beat, record, now_s)])


def _with_resolution(
    beat: ConsumerGroupHeartbeatRequest, resolution: Resolution | None, client: Client
) -> ConsumerGroupHeartbeatRequest:
    """The heartbeat, with the topics that its pattern matches."""
    if resolution is None:
        return beat
    user = client.user_as(beat.member_id)
    resolved = Resolved(topics=[each.name for each in resolution.topics], user=user)
    return msgspec.structs.replace(beat, resolved=resolved, topics=list(resolution.topics))
