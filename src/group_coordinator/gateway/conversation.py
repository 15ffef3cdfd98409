"""A conversation: what a client and its broker send, and what each of them gets of that.

It does no I/O. Bytes and the time come in, and what is to be done goes out by `Effects` (`needs.py`):

    conversation.begins(address)                  a client has connected
    conversation.receive(data, now_s)             the client has sent something
    conversation.receive_from_broker(data, now_s) its broker has sent something
    conversation.expire(now_s)                    time has passed
    conversation.close(reason)                    it is to end
    conversation.ended()                          the client's connection has gone

Time is an argument, in seconds of a clock that does not go back. An answer of the gateway, and work that was
put off, bring none. For them the gateway's turns (`turns.py`) have the same clock.

The client's bytes are cut into frames. Frames of passed requests go to the broker as they arrive. Frames of
local requests are kept until they are whole, and go to the gateway. Only the first slot is sent to the
client.

Some requests hold back what comes after them, as a broker works on one request of a connection at a time.
These are local ones that are large or whose rights have to be asked for, and those of a login (SASL).
All conversations of a gateway share its event loop by turns.

Before a login, where there has to be one, nothing is read but ApiVersions and the login itself.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from group_coordinator.gateway import codec, moving, of_brokers
from group_coordinator.gateway.addresses import unsupported_api_versions
from group_coordinator.gateway.apis import Api, Way
from group_coordinator.gateway.client import Client
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import REQUEST_HEAD_BYTES, Frames, Piece, RequestHead, read_request_head
from group_coordinator.gateway.group_apis.table import GROUP_APIS
from group_coordinator.gateway.holders import Holders
from group_coordinator.gateway.limits import Limits
from group_coordinator.gateway.local_requests import LocalRequests, Unanswered, is_sign_of_life
from group_coordinator.gateway.login_gate import SASL, LoginGate
from group_coordinator.gateway.own_topics import OwnTopics
from group_coordinator.gateway.parties import Guest, shown_host
from group_coordinator.gateway.patience import Patience
from group_coordinator.gateway.produces import ProduceBegin
from group_coordinator.gateway.relay import Relay
from group_coordinator.gateway.rewriting import rewriter
from group_coordinator.gateway.slots import Slots
from group_coordinator.gateway.translation import may_refuse_unread, refused_unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from group_coordinator.gateway.addresses import Serving
    from group_coordinator.gateway.frames import Request
    from group_coordinator.gateway.needs import Effects, Services
    from group_coordinator.gateway.rewriting import Begin
    from group_coordinator.gateway.security import Security

log = logging.getLogger(__name__)

_API_VERSIONS, _FIND_COORDINATOR, _LEAVE, _PRODUCE = 18, 10, 13, 0
_WHOLE = (Way.STREAM, Way.GATEWAY, Way.OF_BROKERS)
"""Requests of these APIs are kept until they are whole."""


class Conversation:
    """A client that was accepted at the place of the broker `node_id`.

    `serving`: tells which brokers can serve it now.
    """

    # With so many attributes and no slots each would have a hash table of its own, of 1.3 kB.
    __slots__ = (
        "_apis",
        "_arrived",
        "_awaits_turn",
        "_effects",
        "_ending",
        "_frames",
        "_gate",
        "_guest",
        "_head",
        "_holders",
        "_is_taking",
        "_is_writable",
        "_local",
        "_may_ask",
        "_own_topics",
        "_patience",
        "_produce",
        "_reason",
        "_relay",
        "_services",
        "_slots",
        "_unanswered",
        "_unread",
        "_untaken",
        "_way",
        "client",
    )

    def __init__(
        self,
        effects: Effects,
        services: Services,
        security: Security,
        node_id: int,
        serving: Callable[[], Serving],
        now_s: float,
    ) -> None:
        self._effects, self._services = effects, services
        self._apis = services.sides.offer.apis
        self._guest = Guest(services.turns)
        self.client = Client("", node_id, self._guest.in_turn)
        """The client, for the code that answers its requests."""
        self._own_topics = OwnTopics(security.own_topics)
        self._patience = Patience(now_s)
        self._frames = Frames(REQUEST_HEAD_BYTES, self._begin)
        self._head: RequestHead | None = None
        self._way: Callable[[RequestHead, Piece], None] = self._drop
        """The method that takes the pieces of the request at hand."""
        self._produce: ProduceBegin | None = None
        """That of the request at hand, until it is known whether it has a response."""
        self._arrived: list[Iterator[Piece]] = []
        """Pieces that the client has sent and that are not taken yet."""
        self._untaken = 0
        """Bytes in them."""
        self._is_taking = False
        self._awaits_turn = False
        self._holders = Holders(self._let_go_on)
        self._slots = Slots(self._answered)
        self._relay = Relay(effects, self._slots, serving, services.turns.clock)
        self._gate = LoginGate(
            self._slots,
            self._relay,
            self._holders,
            self._patience,
            self._ask_broker,
            self._enter_as_user,
            self._fail,
            is_needed=security.has_sasl,
        )
        self._unanswered = Unanswered(services, self._guest, self._slots)
        self._local = LocalRequests(
            effects,
            services,
            security,
            self.client,
            self._unanswered,
            self._holders,
            self._ask_broker,
            self._fail,
        )
        self._is_writable = True
        self._may_ask = True
        self._unread = 0
        """Bytes that are kept for sides that do not read, as told last."""
        self._ending = ""
        """Why the conversation ends once what can still be answered has been; "" if it does not."""
        self._reason = "client"

    @property
    def is_known(self) -> bool:
        """Whether a first request has come to its end, or a login where there has to be one."""
        return self._patience.has_asked

    @property
    def heard_s(self) -> float:
        """The time at which the client last sent something; or connected, if it never did."""
        return self._patience.heard_s

    @property
    def is_owed(self) -> bool:
        """Whether the client waits for anything."""
        return len(self._slots) > 0

    # -- receive from the client -----------------------------------------------------------------------

    def begins(self, address: str) -> None:
        """A client has connected from this address."""
        self.client.host = shown_host(address)
        host = self._services.entered(self)
        if host is None:
            self.abort("too many")
            return
        self._guest.joins(host)
        self.control()

    def receive(self, data: bytes | memoryview, now_s: float) -> None:
        """The client has sent something. Parts of `data` may be kept."""
        self._patience.heard_s = now_s
        self._services.metrics.received.inc(len(data))
        if not self._take_beat(data, now_s):
            self._arrived.append(self._frames.receive(data))
            self._untaken += len(data)
            self._take_arrived()

    def receive_end(self, now_s: float) -> None:
        """The client has closed its side. It is still answered for a moment."""
        self._patience.ends(now_s)
        self._flush()

    def _take_beat(self, data: bytes | memoryview, now_s: float) -> bool:
        """Take the last heartbeat again, if that is what has come, and it would be taken at once."""
        if self._local.beat is None:
            return False
        correlation_id = self._local.repeated(data, now_s)
        if correlation_id is None or not self._takes_at_once(now_s):
            return False
        self._begins(self._local.beat.api_key)
        self._local.beat_again(correlation_id, now_s)
        if not self._may_take():
            self.control()
        return True

    def _takes_at_once(self, now_s: float) -> bool:
        """Whether a local request that comes now is taken at once."""
        return (
            not self._arrived
            and self._services.turns.are_free
            and self._frames.is_between
            and self._may_take()
            and not self._effects.is_closing()
            and self._gate.is_open_at(now_s)
        )

    def _take_arrived(self) -> None:
        """Take what the client has sent, up to a request that holds back what comes after it.

        If the turn is over before, the rest waits for another one.
        """
        if self._effects.is_closing() or self._awaits_turn:
            return
        turns = self._services.turns
        if not turns.are_free and self._arrived and self._may_take():
            self._await_turn()
            return
        self._is_taking = True
        try:
            self._guest.do(self._take_pieces)
        except FrameError as error:
            self._arrived.clear()
            self._fail(f"{error}")
            return
        finally:
            self._is_taking = False
        self._hold()
        if self._arrived and self._may_take() and not self._effects.is_closing():
            self._await_turn()
        self._flush()

    def _take_pieces(self) -> None:
        turns = self._services.turns
        while self._arrived and self._may_take() and turns.are_free:
            for piece in self._arrived[0]:
                self._take(piece)
                self._guest.look()
                if not (self._may_take() and turns.are_free):
                    break
            else:
                del self._arrived[0]
        if not self._arrived:
            self._untaken = 0

    def _await_turn(self) -> None:
        """Wait for a turn to take what has come."""
        self._awaits_turn = True
        self._services.turns.wait(self._guest, self._untaken + self._frames.bytes_held, self._take_turn)
        self.control()

    def _take_turn(self) -> None:
        self._awaits_turn = False
        self._take_arrived()

    def _hold(self) -> None:
        """Tell of what is kept until more comes."""
        count = self._frames.bytes_held + (0 if self._produce is None else len(self._produce))
        if count and self._patience.unfinished_s is None:
            self._patience.unfinished_s = self.heard_s
        if count or self._patience.unfinished_s is not None:
            self._services.unfinished.hold(self, count, self._now_s())

    def _may_take(self) -> bool:
        return (
            not (self._holders or self._ending)
            and len(self._slots) < Limits.slots
            and self._services.pending.may_ask(self, self._guest.holding)
        )

    def _let_go_on(self) -> None:
        """What comes next need not wait any more."""
        if not self._is_taking:
            # Not at once, because the caller is in the middle of something.
            self._effects.soon(self._take_arrived)

    def _now_s(self) -> float:
        return self._services.turns.clock()

    # -- a request of the client -----------------------------------------------------------------------

    def _begin(self, head_bytes: bytes, length: int) -> bool:
        head = self._head = read_request_head(head_bytes)
        api = self._apis.get(head.api_key)
        if api is None or api.way is Way.HIDDEN:
            raise FrameError(f"API {head.api_key} is not offered")
        is_offered = api.offers(head.api_version)
        if not is_offered and head.api_key != _API_VERSIONS:
            raise FrameError(f"{api.name} is not offered in version {head.api_version}")
        if not self._gate.lets(head.api_key):
            raise FrameError(f"{api.name} comes before a login")
        self._begins(head.api_key)
        is_whole = api.way in _WHOLE or not is_offered or head.api_key in SASL
        limit = self._services.largest_frame if is_whole else Limits.passed_frame
        if self._gate.is_shut:
            limit = Limits.login_frame
        if length <= limit:
            self._way = self._way_of(head, api, is_offered=is_offered)
            return is_whole
        if length > Limits.passed_frame or not (self._gate.is_open and may_refuse_unread(head)):
            raise FrameError(f"{api.name} with {length} bytes, of at most {limit}")
        self._way = self._drop
        return False

    def _way_of(
        self, head: RequestHead, api: Api, *, is_offered: bool
    ) -> Callable[[RequestHead, Piece], None]:
        """Return the method that takes the pieces of a request."""
        if not is_offered:
            return self._refuse_version
        if api.way in _WHOLE:
            return self._take_local
        if head.api_key in SASL:
            return self._take_login
        return self._take_produce if head.api_key == _PRODUCE else self._take_passed

    def _begins(self, api_key: int) -> None:
        """A request has begun."""
        self._services.metrics.requests[api_key].inc()
        self._gate.latest = api_key
        if self._unanswered.beats:
            self._services.held_up(self.client)

    def _take(self, piece: Piece) -> None:
        head = self._head
        assert head is not None  # noqa: S101 - no piece comes before its head
        if piece.is_last:
            self._ends()
        self._way(head, piece)

    def _ends(self) -> None:
        """A request has come to its end."""
        if self._patience.unfinished_s is not None:
            self._patience.unfinished_s = None
            self._services.unfinished.ends(self)
        if not self._gate.is_needed:
            self._patience.has_asked = True

    def _drop(self, head: RequestHead, piece: Piece) -> None:
        """Refuse a request that is too large to be kept, once it is over."""
        if piece.is_last:
            slot = self._slots.await_local()
            slot.fill(codec.encode_response(refused_unread(head), head.correlation_id))

    def _refuse_version(self, head: RequestHead, _piece: Piece) -> None:
        # ApiVersions alone is answered then.
        slot = self._slots.await_local()
        slot.fill(codec.encode_response(unsupported_api_versions(), head.correlation_id))

    def _take_local(self, head: RequestHead, piece: Piece) -> None:
        self._gate.pass_when_open(self._now_s(), partial(self._read_local, head, bytes(piece.data)))

    def _take_login(self, head: RequestHead, piece: Piece) -> None:
        if not self._gate.take(head, bytes(piece.data)):
            self._ending = "frame error"

    def _take_passed(self, head: RequestHead, piece: Piece) -> None:
        if not self._refuses(head, piece):
            if piece.is_first:
                self._slots.await_upstream(head.correlation_id, self._rewriter(head))
            self._relay.pass_on(piece.data)

    def _refuses(self, head: RequestHead, piece: Piece) -> bool:
        """Answer a request that names a topic of the coordinator's."""
        refusal = self._own_topics.refusal(head, piece)
        if refusal is not None:
            self._slots.await_local().fill(refusal)
        return refusal is not None

    def _read_local(self, head: RequestHead, frame: bytes) -> None:
        sides = self._services.sides
        if (group_id := sides.group_of(head, frame)) is not None:
            if sides.is_moving(group_id) and head.api_key != _LEAVE:
                self._answer_moving(head, frame, at_brokers=sides.at_brokers(group_id))
                return
            if sides.at_brokers(group_id):
                self._pass_on(head, frame)
                return
        if head.api_key == of_brokers.STREAMS_DESCRIBE:
            asked, rewrite = of_brokers.divided(frame, sides.at_brokers)
            self._slots.await_upstream(head.correlation_id, rewrite)
            self._relay.pass_on(asked)
            return
        api = self._apis[head.api_key]
        if api.way is Way.OF_BROKERS:
            self._services.refused(self.client, api.name)
            self._slots.await_local().fill(of_brokers.refusal(head, frame))
            return
        request = codec.decode_request(frame)
        if _is_of_transaction(request) or sides.are_theirs(request):
            self._pass_on(head, frame)
        else:
            self._local.take(request, frame, self._throttle(request))

    def _answer_moving(self, head: RequestHead, frame: bytes, *, at_brokers: bool) -> None:
        """Answer a request of a group that moves. A member leaves where the group comes from."""
        request = codec.decode_request(frame) if head.api_key in GROUP_APIS else None
        if request is not None and _is_of_transaction(request):
            self._pass_on(head, frame)
        elif request is None or (leave := moving.leave_of(request)) is None:
            self._slots.await_local().fill(moving.refusal(head, frame))
        elif at_brokers:
            refusal = moving.refusal(head, frame)
            self._slots.await_upstream(head.correlation_id, lambda _: refusal)
            self._relay.pass_on(codec.encode_request(leave.message, head.correlation_id, request.client_id))
        else:
            # Its guard knows that it moves.
            self._local.take(request, frame, 0.0)

    def _pass_on(self, head: RequestHead, frame: bytes) -> None:
        """Pass a request on that was kept until it was whole."""
        self._slots.await_upstream(head.correlation_id, self._rewriter(head))
        self._relay.pass_on(frame)

    def sides_changed(self) -> None:
        """Groups may be on another side from now on: read the client's next heartbeat again."""
        self._local.beat = None

    def _throttle(self, request: Request) -> float:
        """Count a request for its user, or host; returns for how many seconds the client is not read then."""
        wait_s = 0.0 if is_sign_of_life(request) else self._guest.asks(self._now_s())
        if wait_s:
            self._holders.add(wait := object())
            self._effects.later(wait_s, partial(self._holders.end, wait))
        return wait_s

    def _enter_as_user(self, name: str | None) -> None:
        user = self._services.logged_in(self, name)
        if user is not None:
            self._guest.joins_user(user, self)

    def _take_produce(self, head: RequestHead, piece: Piece) -> None:
        if self._refuses(head, piece):
            return
        if piece.is_first:
            self._produce = ProduceBegin(head.api_version)
        if self._produce is None:
            self._relay.pass_on(piece.data)
        elif (known := self._produce.take(piece)) is not None:
            self._produce = None
            begin, is_answered = known
            if is_answered:
                self._slots.await_upstream(head.correlation_id, self._rewriter(head))
            self._relay.pass_on(begin)

    def _rewriter(self, head: RequestHead) -> Begin | Callable[[bytes], bytes] | None:
        if self._apis[head.api_key].way is Way.PASSED:
            return None
        services = self._services
        return rewriter(head.api_key, head.api_version, services.address_of, services.sides.offer)

    # -- receive from the broker -----------------------------------------------------------------------

    def receive_from_broker(self, data: bytes | memoryview, now_s: float) -> None:
        """The broker has sent something. The memory of `data` is free again afterwards."""
        try:
            self._relay.receive(data, now_s)
        except FrameError as error:
            self._fail(f"the broker's response {error}")
        else:
            self._answered()
        self._slots.keep()

    def broker_connected(self, node_id: int, *, is_connected: bool) -> None:
        """A connection to this broker was made, or could not be."""
        self._services.connected(node_id, is_connected=is_connected)
        if is_connected:
            self._relay.connected(node_id)
            self.control()

    def broker_reads(self, *, is_reading: bool) -> None:
        """The broker takes what it is sent again, or does not any more."""
        self._relay.is_writable = is_reading
        self.control()

    def broker_lost(self, reason: str) -> None:
        """The broker has gone. While it owed nothing the client need not know."""
        self._relay.lost()
        self._services.metrics.upstream_errors.inc()
        # But a login is lost with it.
        if not (self._gate.is_needed or self._slots.expects_upstream) and self._frames.is_between:
            # The client may have waited for it to read.
            self.control()
            return
        # A client cannot be told that one response of many will not come: it asks again elsewhere.
        log.info("the connection of %s ends: %s", self.client.host, reason)
        self._ending = "broker"
        self._slots.break_off()
        self._flush()

    def _ask_broker(self, message: Any, read: Callable[[Any, float], None]) -> None:
        if self._ending:
            # There is nobody left to ask, and what cannot be asked for is not granted.
            self.close(self._ending)
        else:
            self._relay.ask(message, read, needed_by=self._holders.slot)

    # -- send to the client ----------------------------------------------------------------------------

    def client_reads(self, now_s: float, *, is_reading: bool) -> None:
        """The client takes what it is sent again, or does not any more."""
        self._is_writable = is_reading
        self._patience.stuck_s = None if is_reading else now_s
        if is_reading:
            self._flush()
        else:
            self.control()

    def _flush(self) -> None:
        if self._send_out():
            self.control()

    def _answered(self) -> None:
        """Send a response that has come. Mostly nothing else changes by it."""
        if not self._send_out():
            return
        is_waited_for = self._slots.may_read_upstream is not self._relay.is_read
        if is_waited_for or not self._may_ask or self._unread or self._slots.bytes_held:
            self.control()

    def _send_out(self) -> bool:
        """Send what can be sent; returns whether the conversation goes on."""
        if self._effects.is_closing():
            return False
        if self._is_writable:
            for data in self._slots.take():
                self._services.metrics.sent.inc(len(data))
                self._effects.send(data)
                if self._effects.is_closing():
                    # The client has gone, which the first of these has shown.
                    return False
        if self._slots.bytes_held > Limits.held:
            self._fail(f"{self._slots.bytes_held} bytes of responses wait for one before them")
            return False
        # Its client has closed its side, or the connection would be closing.
        is_over = self._patience.ended_s is not None
        if (self._ending or is_over) and not self.is_owed:
            has_said_all = not (self._arrived or self._holders)
            if self._ending or has_said_all:
                self.close(self._ending or self._reason)
                return False
        if self._gate.waiting is not None and not self.is_owed:
            self._gate.pass_waiting()
        return True

    def control(self) -> None:
        """Read from a side only while what it sends can be taken."""
        if self._effects.is_closing():
            return
        may_ask = self._is_writable and self._may_take() and not self._awaits_turn and self._relay.is_writable
        if may_ask is not self._may_ask:
            self._may_ask = may_ask
            self._effects.read(is_reading=may_ask)
            if may_ask and self._arrived and not self._is_taking:
                self._effects.soon(self._take_arrived)
        self._relay.read(is_reading=self._is_writable and self._slots.may_read_upstream)
        self._tell_unread()

    def _tell_unread(self) -> None:
        count = self._slots.bytes_held
        if not self._is_writable:
            count += self._effects.unsent()
        if not self._relay.is_writable:
            count += self._effects.unsent_to_broker()
        if count != self._unread:
            self._unread = count
            self._services.unread.hold(self, count, self._now_s())

    # -- time passes -----------------------------------------------------------------------------------

    def expire(self, now_s: float) -> None:
        """End if nothing has come for too long. A client that is owed something may wait."""
        patience = self._patience
        if not (self._may_ask or self._effects.is_closing()):
            if self._effects.has_hung_up():
                # It may have sent again, elsewhere, all that is not read yet: an old commit would take its
                # group back.
                self.abort("client")
                return
            # While the gateway does not read it, it cannot finish its request.
            patience.unfinished_s = None if patience.unfinished_s is None else now_s
        ending = patience.over(now_s, is_owed=self.is_owed, is_between=self._frames.is_between)
        if ending is None:
            self._gate.keep(now_s)
        elif ending.at_once:
            self.abort(ending.reason)
        else:
            self.close(ending.reason)

    # -- ends ------------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """End once the client has taken what was sent."""
        self._reason = reason
        self._patience.ends(self._now_s())
        self._effects.close()

    def abort(self, reason: str) -> None:
        """End at once."""
        self._reason = reason
        self._effects.abort()

    def _fail(self, reason: str) -> None:
        self._services.failed(self.client, reason)
        self.abort("frame error")

    def ended(self) -> None:
        """The client has gone: what is in the log stays there."""
        self._guest.leaves(self)
        self._services.pending.stopped.pop(self, None)
        self._unanswered.forget()
        self._services.closed(self, self._reason)


def _is_of_transaction(request: Request) -> bool:
    return request.head.api_key == _FIND_COORDINATOR and request.message.key_type != 0
