"""Requests that the stream or the gateway itself answers, and no broker.

    local.answer(request, client, reply)    `reply` is called once, now or later, with Kafka's response

The table "When the stream is away" in `docs/gateway.md` says how long each request waits, and what it is
answered then. Time is an argument, in seconds of a clock that does not go back.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from functools import partial
from hashlib import blake2b
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    ConsumerGroupHeartbeatRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TopicMetadataRequest,
)
from group_coordinator.coordinator_state.requests.consumer import JOIN_EPOCH
from group_coordinator.coordinator_state.responses import ConsumerGroupHeartbeatResponse
from group_coordinator.gateway.addresses import coordinator_of, hash_of
from group_coordinator.gateway.answers import Waiting
from group_coordinator.gateway.beat_kinds import CONSUMERS, Beat
from group_coordinator.gateway.beats import Beats
from group_coordinator.gateway.commits import Commits
from group_coordinator.gateway.consumer_heartbeats import ConsumerHeartbeats
from group_coordinator.gateway.fetches import judge
from group_coordinator.gateway.group_apis import find_coordinator, list_groups
from group_coordinator.gateway.group_apis.table import api_of
from group_coordinator.gateway.lanes import Lanes
from group_coordinator.gateway.outgoing import LogRecord, Outgoing, record_of
from group_coordinator.gateway.topics import Topics
from group_coordinator.gateway.translation import Sender, refusal, to_contract, to_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from group_coordinator.coordinator_state.offsets.still_there import Found
    from group_coordinator.coordinator_state.requests import AnyRequest
    from group_coordinator.gateway.addresses import Address
    from group_coordinator.gateway.beats import BeatCounts
    from group_coordinator.gateway.client import Client
    from group_coordinator.gateway.frames import Request
    from group_coordinator.gateway.groups import Groups
    from group_coordinator.gateway.outgoing import Place
    from group_coordinator.gateway.renewals import Renewals, Told
    from group_coordinator.gateway.rules import Rules
    from group_coordinator.jobs.topic_patterns import Matched

log = logging.getLogger(__name__)


_MOST_WAIT_S = 900.0
"""No request waits longer, although its client may allow 24 days. The client asks again."""
_LIMITS_WAIT_S, _ASK_LIMITS_S, _LIMITS_HOLD_S = 60.0, 10.0, 600.0
"""The time for the coordinator to tell its limits; until it is asked again if it has not, or if it has."""
_REMEMBERED = 10_000
"""Members whose rebalance timeouts are remembered: as many as a process has connections."""


class Origin(NamedTuple):
    """The fields of requests that are this gateway's own."""

    instance: str
    """A part of its request ids, by which it knows the answers to them."""
    reply_partition: int
    """Where the answers come."""
    group_prefix: str = ""
    """A text before the ids of groups in the log, which clients do not see."""
    secret: bytes = b""
    """The key of the endings of its request ids."""


class Nodes(NamedTuple):
    """The brokers as clients see them."""

    addresses: Callable[[], Mapping[int, Address]]
    """The gateway's addresses, by node id."""
    ids: Callable[[], tuple[int, ...]]
    """Those among which the groups are divided, sorted."""


class Local:
    """Answers local requests. `write` puts a contract request on its way to the log.

    `rules`: those by which the coordinator reads requests. `renewals`: the patterns of clients' groups.
    `topics`: what Kafka has; without them all commits and committed offsets are let pass.
    """

    def __init__(
        self,
        origin: Origin,
        groups: Groups,
        nodes: Nodes,
        write: Callable[[LogRecord], None],
        rules: Rules,
        renewals: Renewals,
        topics: Topics | None = None,
    ) -> None:
        self._origin, self._prefix = origin, f"{origin.instance}-"
        self._numbers = count()
        self._groups, self._nodes, self._write = groups, nodes, write
        self.rules = rules
        """The limits of requests."""
        self._ask_limits_at_s = 0.0
        self._topics = topics
        self._renewals = renewals
        self._renewals.tell = self._tell_topics
        self._lanes = Lanes(self._put)
        self._waiting = Waiting()
        self._silent_since_s: float | None = None
        self._rebalance_timeouts_s: dict[tuple[str, str], float] = {}
        """Of members by group and id, the last to join last."""
        self._prepared: defaultdict[str, list[Outgoing]] = defaultdict(list)
        """Records of heartbeats, by group, that go to the log at the next instant."""
        prefix, most_bytes = origin.group_prefix, rules.config.max_request_bytes
        self._itself = Sender(f"gateway-{origin.instance}", "", origin.reply_partition, self._next_request_id)
        """The gateway, as the sender of requests of its own."""
        self._classic_beats = Beats(self._itself, most_bytes)
        self._consumers_beats = Beats(self._itself, most_bytes, CONSUMERS, self._classic_beats.counts)
        self._all_beats = self._classic_beats, self._consumers_beats
        self._consumers = ConsumerHeartbeats(
            self._consumers_beats, rules, topics, self._renewals, self._hold, prefix
        )
        self._commits = Commits(rules, topics, self._send, self._hold, self._next_request_id, prefix)

    @property
    def beats(self) -> BeatCounts:
        """The heartbeats so far."""
        return self._classic_beats.counts

    def silent_s(self, now_s: float) -> float:
        """Seconds for which requests have waited for the coordinator while it has answered none."""
        return 0 if self._silent_since_s is None else now_s - self._silent_since_s

    @property
    def late_answers(self) -> int:
        """The number of answers that came too late."""
        return self._waiting.late

    # -- the coordinator's limits --------------------------------------------------------------------

    def learn_limits(self, now_s: float) -> None:
        """Ask the coordinator for its limits from time to time; until it has answered the gateway's hold."""
        if now_s < self._ask_limits_at_s:
            return
        self._ask_limits_at_s = inf
        of_group = self._itself.about(f"{self._origin.group_prefix}{self._itself.client_id}")
        asked = FindCoordinatorRequest(api_version=FindCoordinatorRequest.NEWEST_VERSION, **of_group)

        def told(responses: list[Any]) -> None:
            (response,) = responses
            self._ask_limits_at_s = now_s + (_LIMITS_HOLD_S if response.max_request_bytes else _ASK_LIMITS_S)
            if response.max_request_bytes:
                self.rules.follow(response)
                for beats in self._all_beats:
                    beats.most_bytes = response.max_request_bytes

        self._waiting.ask([asked], now_s + _LIMITS_WAIT_S, Errors.COORDINATOR_NOT_AVAILABLE, told)
        self._write(record_of(asked))

    def _tell_topics(self, told: Told) -> None:
        """Tell a group which topics a pattern of its members matches. Nobody is answered."""
        request = TopicMetadataRequest(
            request_id=self._next_request_id(),
            client_id=self._itself.client_id,
            group_id=told.group_id,
            based_on=told.based_on,
            topics=told.topics,
            patterns=[told.pattern],
        )
        record = record_of(request)
        if len(record.value) > self.rules.config.max_request_bytes:
            # The watcher of topics tells the group what is left out.
            record = record_of(msgspec.structs.replace(request, topics=[]))
        self._write(record)

    # -- a client asks -------------------------------------------------------------------------------

    def answer(self, request: Request, client: Client, now_s: float, reply: Callable[[Any], None]) -> None:
        """Answer `request`; `reply` is called once, with Kafka's response."""
        match request.head.api_key:
            case find_coordinator.API.key:
                reply(find_coordinator.found(request, self._coordinator))
            case list_groups.API.key:
                self._groups.unseen.wait(partial(client.in_turn, partial(self._list, request, client, reply)))
            case _:
                self._ask(request, client, now_s, reply)

    def match(self, pattern: str, then: Callable[[Matched | None], None]) -> None:
        """Tell `then` which topics a pattern matches, in a moment; None if Kafka does not say so in time."""
        self._renewals.patterns.find(pattern, then, self._consumers.hints_wait_s)

    def beat_again(self, beat: Beat, answer: Callable[[Any], None]) -> None:
        """Answer a heartbeat that was accepted before.

        `answer` is called once: with the verdict on a classic one, else with the contract's response.
        """
        if beat.kind is CONSUMERS:
            self._consumers.again(beat, answer)
        else:
            self._classic_beats.add(beat, answer)

    def held_up(self, client: Client) -> None:
        """A later request of the client waits for its newest heartbeat."""
        if client.accepted:
            for beats in self._all_beats:
                beats.hold_up(client.accepted.request.group_id)

    def _list(self, request: Request, client: Client, reply: Callable[[Any], None]) -> None:
        reply(self._groups.listed(request.message, client.node_id, self._nodes.ids()))

    def _ask(self, request: Request, client: Client, now_s: float, reply: Callable[[Any], None]) -> None:
        sender = Sender(
            # It is only shown, and Kafka takes one of any length.
            (request.client_id or "")[: self.rules.config.max_id_length],
            client.host,
            self._origin.reply_partition,
            self._next_request_id,
            self._origin.group_prefix,
            client.principal,
        )
        asked = to_contract(request, sender)
        respond = client.later(lambda responses: reply(to_kafka(request, responses)))

        match asked:
            case [OffsetCommitRequest() as commit]:
                self._commits.take(commit, client, now_s, respond)
            case [OffsetFetchRequest(), *_] if (topics := self._topics) is not None:

                def find(names: Iterable[str], then: Callable[[Mapping[str, Found]], None]) -> None:
                    topics.find_anew(names, client.later(then))

                judged = client.later(lambda told: judge(asked, told, find, respond))
                self._send(asked, client, now_s, judged)
            case [HeartbeatRequest() as beat] if self.rules.refuses(beat, record_of(beat), now_s) is None:
                client.accepted = Beat.of(beat)
                self.beat_again(client.accepted, lambda told: reply(to_kafka(request, [told])))
            case [ConsumerGroupHeartbeatRequest() as beat] if beat.epoch >= JOIN_EPOCH:
                self._consumers.take(request, beat, client, now_s, reply)
            case _:
                self._send(asked, client, now_s, respond)

    def logged_in(self, client: Client, name: str | None) -> None:
        """The broker has accepted the client's login under this name; None if it is not known."""
        most = self.rules.config.max_id_length
        if name is not None and len(name) > most:
            # A part of a name may be the name of another client.
            log.warning(
                "requests of %s have no principal: the client's name has %d characters, of at most %d",
                *(client.host, len(name), most),
            )
            name = None
        client.principal = name

    def _send(
        self,
        asked: Sequence[AnyRequest],
        client: Client,
        now_s: float,
        respond: Callable[[list[Any]], None],
        place: Place | None = None,
    ) -> None:
        """Ask the stream, and respond with what it says to each, or with what is to be said in its place.

        `place`: the place in the group's lane that a commit has already.
        """
        records = {each.request_id: record_of(each) for each in asked}
        refused: dict[str, Errors] = {}
        for each in asked:
            error = self.rules.refuses_to(client.name, each, records[each.request_id], now_s)
            if error is not None:
                refused[each.request_id] = error
        accepted = [each for each in asked if each.request_id not in refused]

        def answered(responses: list[Any]) -> None:
            by_id = {each.request_id: response for each, response in zip(accepted, responses, strict=True)}
            for each, response in zip(accepted, responses, strict=True):
                self._heard(each, response)
            respond([by_id.get(each.request_id) or refusal(each, refused[each.request_id]) for each in asked])

        patience_s, error = self._patience(accepted)
        self._waiting.ask(accepted, now_s + patience_s, error, answered, client, _joining(accepted))
        outgoing = [Outgoing(each, records[each.request_id], now_s) for each in accepted]
        if place is not None:
            place(outgoing)
            return
        for out in outgoing:
            # Later requests must not overtake the group's heartbeats.
            self._flush(out.request.group_id, now_s)
            if isinstance(out.request, (JoinGroupRequest, LeaveGroupRequest)):
                self._classic_beats.rebalances(out.request.group_id, now_s)
            elif isinstance(out.request, ConsumerGroupHeartbeatRequest):
                # It leaves: all other heartbeats go another way.
                self._consumers_beats.rebalances(out.request.group_id, now_s)
            self._lanes.put(out.request.group_id, out)

    def _hold(self, group_id: str, now_s: float) -> Place:
        """Hold a place in a group's lane, behind the heartbeats that wait."""
        self._flush(group_id, now_s)
        return self._lanes.hold(group_id)

    def _heard(self, asked: AnyRequest, response: Any) -> None:
        """A client is answered: late verdicts on its heartbeats before are of the past."""
        if not isinstance(asked, (JoinGroupRequest, SyncGroupRequest)):
            return
        self._classic_beats.joined(asked.group_id, getattr(response, "member_id", asked.member_id))
        if isinstance(asked, JoinGroupRequest) and not response.error_code:
            self._remember(asked, response.member_id)

    def _patience(self, asked: Sequence[AnyRequest]) -> tuple[float, Errors]:
        """How long the stream has for an answer, in seconds, and what is answered after that."""
        if not asked:
            return 0, Errors.NONE
        first = asked[0]
        api, timeout_s = api_of(first), self._rebalance_timeouts_s.get((first.group_id, first.member_named))
        return min(api.wait_s(first, timeout_s), _MOST_WAIT_S), api.late

    def _remember(self, join: JoinGroupRequest, member_id: str) -> None:
        """Remember how long the group waits for this member's sync, of the last to join."""
        known = self._rebalance_timeouts_s
        known.pop((join.group_id, member_id), None)
        known[join.group_id, member_id] = join.effective_rebalance_timeout_ms / 1000
        if len(known) > _REMEMBERED:
            del known[next(iter(known))]

    def gone(self, client: Client) -> None:
        """Drop what a client has asked, because its connection has ended. In the log it stays."""
        self._waiting.forget(client)
        self._renewals.gone(client)
        client.gone()

    def _coordinator(self, group_id: str) -> dict[str, Any]:
        node_id = coordinator_of(hash_of(self._origin.group_prefix + group_id), self._nodes.ids())
        address = None if node_id is None else self._nodes.addresses().get(node_id)
        if not group_id:
            return {"error_code": Errors.INVALID_GROUP_ID.value, **find_coordinator.NOWHERE}
        if address is None:
            return {"error_code": Errors.COORDINATOR_NOT_AVAILABLE.value, **find_coordinator.NOWHERE}
        at = {"node_id": node_id, "host": address.host, "port": address.port}
        return {"error_code": Errors.NONE.value, **at}

    def _next_request_id(self) -> str:
        number = next(self._numbers)
        # The history shows ids. Nobody who has seen one can guess the next one, and answer it.
        ending = blake2b(number.to_bytes(8), digest_size=4, key=self._origin.secret).hexdigest()
        return f"{self._prefix}{number}-{ending}"

    # -- time passes -------------------------------------------------------------------------------

    def flush(self, now_s: float) -> None:
        """Send all heartbeats that wait for others."""
        self.prepare(now_s)
        self.send_prepared()

    def flush_hurried(self, now_s: float) -> None:
        """Send the heartbeats of groups that are in a hurry."""
        for group_id in {each for beats in self._all_beats for each in beats.in_a_hurry(now_s)}:
            self._flush(group_id, now_s)

    def prepare(self, now_s: float) -> None:
        """Make the records of all heartbeats that wait, which `send_prepared` sends.

        A gateway takes some ms for those of thousands of members, and one batch of the stream shall read them
        all. So all gateways make them before the instant at which they send them.
        """
        for group_id in {each for beats in self._all_beats for each in beats.groups}:
            self._prepare(group_id, now_s)

    def send_prepared(self) -> None:
        """Send what is prepared, and not what has come since."""
        for group_id in list(self._prepared):
            self._send_prepared(group_id)

    def _flush(self, group_id: str, now_s: float) -> None:
        self._prepare(group_id, now_s)
        self._send_prepared(group_id)

    def _prepare(self, group_id: str, now_s: float) -> None:
        for beats in self._all_beats:
            for request in beats.flush(group_id, now_s):
                self._prepared[group_id].append(Outgoing(request, record_of(request), now_s))

    def _send_prepared(self, group_id: str) -> None:
        for each in self._prepared.pop(group_id, ()):
            self._lanes.put(group_id, each)

    def _put(self, each: Outgoing) -> None:
        is_silent = self._silent_since_s is not None
        if not is_silent and not isinstance(each.request, (JoinGroupRequest, SyncGroupRequest)):
            # Joins and syncs may be kept waiting by the group.
            self._silent_since_s = each.since_s
        self._write(each.record)

    def expire(self, now_s: float) -> None:
        """Refuse the requests that have waited long enough."""
        if self._topics is not None:
            self._topics.expire(now_s)
        self._renewals.patterns.expire(now_s)
        self._renewals.expire(now_s)
        self._waiting.expire(now_s)
        for beats in self._all_beats:
            beats.expire(now_s)
        self._groups.unseen.expire(now_s)

    # -- the log tells -----------------------------------------------------------------------------

    def acknowledged(self, request_ids: Sequence[str], now_s: float) -> None:
        """Note that Kafka has taken these requests."""
        for beats in self._all_beats:
            for each in request_ids:
                beats.acknowledged(each, now_s)
        self._waiting.acknowledged(request_ids)

    def refused(self, request_ids: Sequence[str]) -> None:
        """Refuse these requests, because Kafka has not taken them and never will."""
        for beats in self._all_beats:
            for each in request_ids:
                beats.refused(each)
        self._waiting.refuse(request_ids, Errors.COORDINATOR_NOT_AVAILABLE)

    def take(self, responses: Sequence[Any], now_s: float) -> None:
        """Take the coordinator's answers. Some may be for other gateways that read the same partition."""
        for each in responses:
            # Even if it is another gateway's, the coordinator is there.
            self._silent_since_s = None
            if not each.request_id.startswith(self._prefix):
                continue
            if isinstance(each, ConsumerGroupHeartbeatResponse) and each.heartbeat_interval_ms:
                self._consumers.take_interval(each.heartbeat_interval_ms)
            if not any(beats.take(each, now_s) for beats in self._all_beats):
                self._waiting.take(each)


def _joining(asked: Sequence[AnyRequest]) -> tuple[str, str] | None:
    """The member whose join it is, if it has an id already."""
    match asked:
        case [JoinGroupRequest(group_id=group_id, member_id=member_id)] if member_id:
            return group_id, member_id
        case _:
            return None
