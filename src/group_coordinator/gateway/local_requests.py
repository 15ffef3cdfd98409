"""The requests of one client that no broker answers, from their frames to their responses.

The guard of each request (`guards.py`) tells what it needs: rights, which the client's broker is asked for,
and answers of the gateway.

Some hold back what comes after them, as a broker works on one request of a connection at a time. These are
large, or their rights have to be asked for.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer.group import HeartbeatResponse

from group_coordinator.gateway import codec
from group_coordinator.gateway.group_apis.guarding import Ask, AskBroker, Match
from group_coordinator.gateway.guards import guard, unguarded
from group_coordinator.gateway.limits import Limits, bytes_kept
from group_coordinator.gateway.messages import ConsumerGroupHeartbeatResponse
from group_coordinator.gateway.repeated import RepeatedBeat
from group_coordinator.gateway.rewriting import replace_addresses
from group_coordinator.gateway.rights import Operation, Resource, Right, Rights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from group_coordinator.gateway.client import Client
    from group_coordinator.gateway.frames import Request
    from group_coordinator.gateway.group_apis.guarding import Guard
    from group_coordinator.gateway.holders import Holders
    from group_coordinator.gateway.limits import Holding
    from group_coordinator.gateway.needs import Effects, Services
    from group_coordinator.gateway.parties import Guest
    from group_coordinator.gateway.security import Security
    from group_coordinator.gateway.slots import LocalSlot, Slots

log = logging.getLogger(__name__)

_HEARTBEAT = HeartbeatResponse.API_KEY
HEARTBEATS = (_HEARTBEAT, ConsumerGroupHeartbeatResponse.API_KEY)
"""The APIs by which members say that they are alive."""


def is_sign_of_life(request: Request) -> bool:
    """Whether all that a request says is that a member is alive. Those of many members are one record."""
    if request.head.api_key != ConsumerGroupHeartbeatResponse.API_KEY:
        return bool(request.head.api_key == _HEARTBEAT)
    message = request.message
    says = (
        message.rack_id,
        message.subscribed_topic_names,
        message.subscribed_topic_regex,
        message.server_assignor,
        message.topic_partitions,
    )
    return message.member_epoch > 0 and message.rebalance_timeout_ms == -1 and says == (None,) * len(says)


class Unanswered:
    """The local requests of one client that wait for their responses, counted for it and for all."""

    __slots__ = ("_guest", "_services", "_slots", "_waiting", "beats")

    def __init__(self, services: Services, guest: Guest, slots: Slots) -> None:
        self._services, self._guest, self._slots = services, guest, slots
        self._waiting: dict[LocalSlot, tuple[Holding, int, int]] = {}
        """Those whose they are, the key of the API, and what they take."""
        self.beats = 0
        """The number of heartbeats among them."""

    def add(self, api_key: int, size: int) -> LocalSlot:
        """One more waits, which takes `size` bytes; returns the slot for its response."""
        slot, holding = self._slots.await_local(), self._guest.holding
        self._waiting[slot] = holding, api_key, size
        self.beats += api_key in HEARTBEATS
        self._services.pending.add(holding, api_key, size)
        return slot

    def grow(self, slot: LocalSlot, size: int) -> None:
        """One takes so many bytes more, because something was found out for it."""
        if (counted := self._waiting.get(slot)) is not None:
            holding, api_key, before = counted
            self._waiting[slot] = holding, api_key, before + size
            self._services.pending.grow(holding, size)

    def end(self, slot: LocalSlot) -> None:
        """One is answered."""
        # A client that has gone waits for nothing, although its request may be answered later.
        if (counted := self._waiting.pop(slot, None)) is not None:
            self.beats -= counted[1] in HEARTBEATS
            self._services.pending.remove(*counted)

    def forget(self) -> None:
        """Nobody waits for them any more."""
        for slot in list(self._waiting):
            self.end(slot)


class LocalRequests:
    """The requests of `client` that no broker answers.

    `ask_broker` asks the client's broker something: it takes a request, and who is given the response and the
    time then. `fail` ends the connection for a reason.
    """

    __slots__ = (
        "_ask_broker",
        "_client",
        "_clock",
        "_effects",
        "_fail",
        "_holders",
        "_rights",
        "_security",
        "_services",
        "_unanswered",
        "beat",
    )

    def __init__(
        self,
        effects: Effects,
        services: Services,
        security: Security,
        client: Client,
        unanswered: Unanswered,
        holders: Holders,
        ask_broker: Callable[[Any, Callable[[Any, float], None]], None],
        fail: Callable[[str], None],
    ) -> None:
        self._effects, self._services, self._security = effects, services, security
        self._client, self._unanswered, self._holders = client, unanswered, holders
        self._ask_broker, self._fail = ask_broker, fail
        self._clock = services.turns.clock
        self._rights = Rights(ask_broker, services.metrics.right_answered)
        self.beat: RepeatedBeat | None = None
        """The last heartbeat that was read; None if it was too long to be kept."""

    def take(self, request: Request, frame: bytes, throttle_s: float) -> None:
        """Take a request, which came as `frame`. Its client is told that it is not read for so long."""
        api_key, correlation_id = request.head.api_key, request.head.correlation_id
        security = self._security
        if api_key in HEARTBEATS:
            is_kept = len(frame) <= Limits.kept_frame
            self.beat = RepeatedBeat.of(request, frame, security.groups_prefix) if is_kept else None
            # Until it is known whether the coordinator can read this one.
            self._client.accepted = self._client.asked = None
            if api_key == ConsumerGroupHeartbeatResponse.API_KEY:
                self._client.is_judged, self._client.may_describe = security.asks_rights, self._may_describe
        asked_s = self._clock()
        slot = self._unanswered.add(api_key, bytes_kept(len(frame), request.elements))
        alone = object()

        def reply(message: Any) -> None:
            self._unanswered.end(slot)
            self._services.metrics.answered(api_key, message, self._clock() - asked_s)
            if throttle_s:
                message.throttle_time_ms = round(1000 * throttle_s)
            slot.fill(codec.encode_response(message, correlation_id))
            self._holders.end(alone)

        sides = self._services.sides
        exchange = (
            guard(request, security.groups_prefix, sides)
            if security.asks_rights
            else unguarded(request, sides)
        )
        if request.elements <= Limits.elements_alone:
            self._advance(exchange, None, slot, reply)
        else:
            self._holders.add(alone)
            # To read it may have taken so long that others come first.
            self._client.in_turn(lambda: self._advance(exchange, None, slot, reply))

    def _advance(self, exchange: Guard, told: Any, slot: LocalSlot, reply: Callable[[Any], None]) -> None:
        """Do what `exchange` wants next, until it ends with the response for `slot`."""
        if self._effects.is_closing():
            return
        try:
            wanted = _next(exchange, told, reply)
        except Exception:
            # A bug of ours, and this client's alone: the answers behind it are other clients'.
            log.exception("a response cannot be given")
            self._fail("a response cannot be given")
            return
        if wanted is None:
            self._holders.end(slot)
            return
        if isinstance(wanted, AskBroker):
            self._holders.add(slot)
            self._ask_broker(
                wanted.message,
                lambda it, _: self._advance(exchange, self._addressed(it), slot, reply),
            )
            return
        if isinstance(wanted, Match):
            self._holders.add(slot)
            matched = self._client.later(lambda it: self._advance(exchange, it, slot, reply))
            self._services.match(wanted.pattern, matched)
            return
        if not isinstance(wanted, Ask):
            self._holders.add(slot)
            self._rights.ask(wanted, self._clock(), lambda it: self._advance(exchange, it, slot, reply))
            return
        if not wanted.is_last:
            self._holders.add(slot)
        if wanted.request.resolved is not None:
            self._unanswered.grow(slot, wanted.request.resolved.size)
        in_turn = self._client.in_turn
        self._services.answer(
            wanted.request,
            self._client,
            lambda it: in_turn(lambda: self._advance(exchange, it, slot, reply)),
        )
        if wanted.is_last:
            self._holders.end(slot)

    def _may_describe(self, topics: Iterable[str], then: Callable[[frozenset[str]], None]) -> None:
        """Find out which of these topics the client may see; `then` gets them, now or later."""
        if not self._security.asks_rights:
            then(frozenset(topics))
            return
        rights = [Right(Operation.DESCRIBE, Resource.TOPIC, each) for each in topics]
        self._rights.ask(rights, self._clock(), lambda granted: then(frozenset(it.name for it in granted)))

    def _addressed(self, response: Any) -> Any:
        """A broker's response, with the gateway's addresses."""
        replace_addresses(response, self._services.address_of)
        return response

    # -- a heartbeat that comes again ------------------------------------------------------------------

    def repeated(self, data: bytes | memoryview, now_s: float) -> bytes | None:
        """Return the correlation id if this is the last heartbeat again, and nothing need be asked for it."""
        beat = self.beat
        if beat is None or self._client.accepted is None or len(data) != beat.size:
            return None
        if self._security.asks_rights and not self._rights.is_granted(beat.right, now_s):
            return None
        return beat.correlation_id_in(bytes(data))

    def beat_again(self, correlation_id: bytes, now_s: float) -> None:
        """Take the last heartbeat again."""
        beat, accepted = self.beat, self._client.accepted
        assert beat is not None and accepted is not None  # noqa: PT018, S101 - as `repeated` has seen
        slot = self._unanswered.add(beat.api_key, beat.kept)

        def answer(told: Any) -> None:
            self._unanswered.end(slot)
            error_code = told.error_code
            if error_code and self._client.accepted is accepted:
                # Its client may have to say again what it has not said in this one.
                self._client.accepted = None
            self._services.metrics.answered_with(beat.api_key, error_code, self._clock() - now_s)
            if beat.api_key == _HEARTBEAT:
                slot.fill(codec.encode_heartbeat_response(beat.version, error_code, correlation_id))
            else:
                slot.fill(codec.encode_consumers_answer(beat.version, told, correlation_id))

        self._services.beat_again(accepted, answer)


def _next(
    exchange: Guard, told: Any, reply: Callable[[Any], None]
) -> Iterable[Right] | Ask | AskBroker | Match | None:
    """Go on with `exchange`; returns what it wants, or None after it has ended with the response."""
    try:
        return exchange.send(told)
    except StopIteration as end:
        reply(end.value)
        return None
