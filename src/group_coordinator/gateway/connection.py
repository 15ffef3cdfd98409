"""One client's connection: its own connection to a broker, and the slots in between.

The connection cuts the client's bytes into frames. Frames of passed requests go upstream as
they arrive. Frames of local requests are kept until they are whole, and go to the gateway. Only the first
slot is written to the client.

Some requests hold back what comes after them, as a broker works on one request of a connection at a time.
These are local ones that are large or whose rights have to be asked for, and those of a login (SASL).
All connections of a gateway share its event loop by turns (`turns.py`).

Before a login, where there has to be one, nothing is read but ApiVersions and the login itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslHandshakeResponse

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec
from group_coordinator.gateway.addresses import unsupported_api_versions
from group_coordinator.gateway.apis import APIS, Way
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import (
    REQUEST_HEAD_BYTES,
    Frames,
    Piece,
    RequestHead,
    read_request_head,
)
from group_coordinator.gateway.guards import Ask, guard, unguarded
from group_coordinator.gateway.limits import Limits, bytes_kept
from group_coordinator.gateway.local import Client
from group_coordinator.gateway.login import Login
from group_coordinator.gateway.own_topics import OwnTopics
from group_coordinator.gateway.parties import Guest
from group_coordinator.gateway.patience import Patience
from group_coordinator.gateway.produces import ProduceBegin
from group_coordinator.gateway.repeated import RepeatedBeat
from group_coordinator.gateway.rewriting import rewriter
from group_coordinator.gateway.rights import Rights
from group_coordinator.gateway.security import Security
from group_coordinator.gateway.slots import LocalSlot, Slots
from group_coordinator.gateway.translation import may_refuse_unread, refused_unread
from group_coordinator.gateway.transports import has_hung_up, set_reading
from group_coordinator.gateway.upstream import Serving, Upstream
from group_coordinator.gateway.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from group_coordinator.gateway.addresses import Address
    from group_coordinator.gateway.beats import Beat
    from group_coordinator.gateway.guards import Guard
    from group_coordinator.gateway.limits import Budget, Holding, Pending
    from group_coordinator.gateway.metrics import GatewayMetrics
    from group_coordinator.gateway.parties import Party
    from group_coordinator.gateway.rewriting import Begin
    from group_coordinator.gateway.rights import Right
    from group_coordinator.gateway.turns import Turns

__all__ = ["ClientConnection", "Services"]

log = logging.getLogger(__name__)

_API_VERSIONS, _FIND_COORDINATOR, _HEARTBEAT, _PRODUCE = 18, 10, 12, 0
_BEFORE_LOGIN = (18, 17, 36)
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_SASL = (_SASL_HANDSHAKE, _SASL_AUTHENTICATE)
_OWN_ID, _OWN_NAME = 0, "group-coordinator-gateway"
"""Correlation id and client id of what the gateway asks a broker on its own account."""
_SIGN_OF_LIFE = MetadataRequest(version=1, topics=[])
"""A broker answers it only to a client that has logged in."""

_READ_BYTES = 256 * 1024
"""Most that is read of a client at once."""
_COPIED_BYTES = 64 * 1024
"""Up to so many are copied out of the buffer. More keep it, and the next ones get another."""


class Services(Protocol):
    """The gateway, as a connection needs it."""

    def answer(self, request: codec.Request, client: Client, reply: Callable[[Any], None]) -> None:
        """Answer a local request; `reply` is called once, with Kafka's response."""

    def beat_again(self, beat: Beat, answer: Callable[[int], None]) -> None:
        """Answer a heartbeat that was accepted before; `answer` is called once, with the error code."""

    @property
    def largest_frame(self) -> int:
        """Bytes of the largest request of a group that is read whole."""

    def held_up(self, client: Client) -> None:
        """A later request of the client waits for its newest heartbeat."""

    def entered(self, connection: ClientConnection) -> Party | None:
        """A client has connected; returns the party of its host, or None if there is no room for it."""

    def logged_in(self, connection: ClientConnection, name: str | None) -> Party | None:
        """The broker has accepted the client's login under this name; None if it is not known.

        Returns the party of the user.
        """

    def refused(self, client: Client, api: str) -> None:
        """A client has asked for what is answered with an error, which ends it."""

    def failed(self, client: Client, reason: str) -> None:
        """A connection is closed for what its client, or its broker, has sent."""

    def address_of(self, node_id: int, own: Address) -> Address | None:
        """Return the gateway's address for a broker, which a response names at `own`; None if it has none."""

    @property
    def metrics(self) -> GatewayMetrics:
        """The counters of the gateway."""

    @property
    def turns(self) -> Turns:
        """The event loop's time."""

    @property
    def pending(self) -> Pending:
        """The local requests of all clients."""

    @property
    def unfinished(self) -> Budget[ClientConnection]:
        """Bytes of requests that are kept until they are whole."""

    @property
    def unread(self) -> Budget[ClientConnection]:
        """Bytes kept because a client or a broker does not read, or an earlier response is awaited."""

    def connected(self, node_id: int, *, is_connected: bool) -> None:
        """A connection to this broker was made, or could not be."""

    def closed(self, connection: ClientConnection, reason: str) -> None:
        """The connection has gone."""


class ClientConnection(asyncio.BufferedProtocol):
    """A client, which was accepted on a port that stands for the broker `node_id`.

    `serving`: tells which brokers can serve it now.
    """

    # With more than 30 attributes and no slots each would have a hash table of its own, of 1.3 kB.
    __slots__ = (
        "_arrived",
        "_awaits_turn",
        "_beat",
        "_beating",
        "_client",
        "_ending",
        "_frames",
        "_guest",
        "_head",
        "_holders",
        "_is_dropped",
        "_is_taking",
        "_is_writable",
        "_login",
        "_may_ask",
        "_own_topics",
        "_patience",
        "_produce",
        "_reason",
        "_rights",
        "_security",
        "_served_by",
        "_services",
        "_serving",
        "_slots",
        "_transport",
        "_unread",
        "_untaken",
        "_upstream",
        "_waiting",
        "_work",
    )

    _buffer = memoryview(bytearray(_READ_BYTES))
    """All connections share it: memory for each read would be mapped, cut and unmapped each time.

    asyncio fills it in parts where TLS has several records. A part of a bytearray would be a copy.
    """

    def __init__(
        self, services: Services, node_id: int, serving: Callable[[], Serving], security: Security
    ) -> None:
        self._services = services
        self._serving = serving
        self._security = security
        self._rights = Rights(self._ask_broker, services.metrics.right_answered)
        self._login = Login()
        self._own_topics = OwnTopics(security.own_topics)
        self._arrived: deque[Iterator[Piece]] = deque()
        """Pieces that the client has sent and that are not taken yet."""
        self._untaken = 0
        """Bytes in them."""
        self._holders: set[object] = set()
        """Requests, and other things, that later requests have to wait for."""
        self._is_taking = False
        self._awaits_turn = False
        self._guest = Guest()
        self._work = Work(services.turns, self._guest)
        self._slots = Slots(self._filled)
        self._frames = Frames(REQUEST_HEAD_BYTES, self._begin)
        self._beat: RepeatedBeat | None = None
        """The last heartbeat that was read; None if it was too long to be kept."""
        self._head: RequestHead | None = None
        self._is_dropped = False
        """Whether the request at hand is too large to be kept, and is refused once it is over."""
        self._produce: ProduceBegin | None = None
        """That of the request at hand, until it is known whether it has a response."""
        self._waiting: dict[LocalSlot, tuple[Holding, int, int]] = {}
        """Local requests without a response: whose they are, the key of the API, and what they take."""
        self._beating = 0
        """The number of heartbeats among them."""
        self._transport: Any = None
        self._upstream: Upstream | None = None
        self._served_by: int | None = None
        """The broker that has served the client; None if none has."""
        self._client = Client("", node_id, self._work.in_turn)
        self._is_writable = True
        self._ending = ""
        """Why the connection ends once what can still be answered has been; "" if it does not."""
        self._patience = Patience(time.monotonic())
        self._unread = 0
        """Bytes that are kept for sides that do not read, as told last."""
        self._may_ask = True
        self._reason = "client"

    @property
    def client(self) -> Client:
        """The client, for the code that answers its requests."""
        return self._client

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

    # -- the client ----------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """The client has connected."""
        self._transport = transport
        transport.set_write_buffer_limits(high=Limits.unwritten)
        # A port for both kinds of addresses shows those of IPv4 so.
        host = (transport.get_extra_info("peername") or ("",))[0].removeprefix("::ffff:")
        self._client = Client(f"/{host}", self._client.node_id, self._work.in_turn)
        host = self._services.entered(self)
        if host is None:
            self.abort("too many")
            return
        self._guest.joins(host)
        self.control()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Give the memory that the client's data is to be put into."""
        return ClientConnection._buffer

    def buffer_updated(self, count: int) -> None:
        """Take `count` bytes of the client, which are in the buffer."""
        data = ClientConnection._buffer[:count]
        if count > _COPIED_BYTES:
            # Requests that wait, and parts that are not sent yet, may be views of it.
            ClientConnection._buffer = memoryview(bytearray(_READ_BYTES))
            self.data_received(data)
        else:
            self.data_received(bytes(data))

    def data_received(self, data: bytes | memoryview) -> None:
        """The client has sent something."""
        self._patience.heard_s = time.monotonic()
        self._services.metrics.received.inc(len(data))
        if not self._take_beat(data):
            self._arrived.append(self._frames.receive(data))
            self._untaken += len(data)
            self._take_arrived()

    def eof_received(self) -> bool:
        """The client has closed its side. It is still answered for a moment, but not with TLS."""
        self._patience.ends(time.monotonic())
        self._flush()
        has_tls = self._transport.get_extra_info("sslcontext") is not None
        return not has_tls and not self._transport.is_closing()

    def _take_arrived(self) -> None:
        """Take what the client has sent, up to a request that holds back what comes after it.

        If the turn is over before, the rest waits for another one.
        """
        if self._transport.is_closing() or self._awaits_turn:
            return
        turns = self._services.turns
        if not turns.are_free and self._arrived and self._may_take():
            self._await_turn()
            return
        self._is_taking = True
        try:
            self._work.do(self._take_pieces)
        except FrameError as error:
            self._arrived.clear()
            self._fail(f"{error}")
            return
        finally:
            self._is_taking = False
        self._hold()
        if self._arrived and self._may_take() and not self._transport.is_closing():
            self._await_turn()
        self._flush()

    def _take_pieces(self) -> None:
        turns = self._services.turns
        while self._arrived and self._may_take() and turns.are_free:
            for piece in self._arrived[0]:
                self._take(piece)
                self._work.look()
                if not (self._may_take() and turns.are_free):
                    break
            else:
                self._arrived.popleft()
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
            self._services.unfinished.hold(self, count, time.monotonic())

    def _may_take(self) -> bool:
        return (
            not (self._holders or self._ending)
            and len(self._slots) < Limits.slots
            and self._services.pending.may_ask(self, self._guest.holding)
        )

    def _go_on(self, holder: object) -> None:
        """What comes next need not wait for this one any more."""
        if holder in self._holders:
            self._holders.discard(holder)
            if not self._holders and not self._is_taking:
                # Not at once, because the caller is in the middle of something.
                asyncio.get_running_loop().call_soon(self._take_arrived)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._is_writable = False
        self._patience.stuck_s = time.monotonic()
        self.control()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_writable = True
        self._patience.stuck_s = None
        self._flush()

    def connection_lost(self, _error: Exception | None) -> None:
        """The client has gone: what is in the log stays there."""
        self._guest.leaves(self)
        self._services.pending.stopped.pop(self, None)
        if self._upstream is not None:
            self._upstream.close()
        for slot in list(self._waiting):
            self._waits_no_more(slot)
        self._services.closed(self, self._reason)

    def expire(self, now_s: float) -> None:
        """End the connection if nothing has come for too long. A client that is owed something may wait."""
        patience = self._patience
        if not (self._may_ask or self._transport.is_closing()):
            if has_hung_up(self._transport):
                # It may have sent again, elsewhere, all that is not read yet: an old commit would take its
                # group back.
                self.abort("client")
                return
            # While the gateway does not read it, it cannot finish its request.
            patience.unfinished_s = None if patience.unfinished_s is None else now_s
        ending = patience.over(now_s, is_owed=self.is_owed, is_between=self._frames.is_between)
        if ending is None:
            self._keep_login(now_s)
        elif ending.at_once:
            self.abort(ending.reason)
        else:
            self.close(ending.reason)

    def _keep_login(self, now_s: float) -> None:
        """Ask a broker that has been silent for long for a sign of life, if a login would be lost with it."""
        if self._upstream is not None and now_s - self._upstream.heard_s > Limits.keep_alive_s:
            if self._login.may_be_kept(now_s) and not self.is_owed:
                self._ask_broker(_SIGN_OF_LIFE, lambda _response, _now_s: None)
            self._upstream.heard_s = now_s

    def close(self, reason: str) -> None:
        """End the connection once what has been written is sent."""
        self._reason = reason
        if self._transport is not None:
            self._patience.ends(time.monotonic())
            self._transport.close()

    def abort(self, reason: str) -> None:
        """End the connection at once."""
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, reason: str) -> None:
        self._services.failed(self._client, reason)
        self.abort("frame error")

    # -- requests --------------------------------------------------------------------------------------

    def _begin(self, head_bytes: bytes, length: int) -> bool:
        head = self._head = read_request_head(head_bytes)
        api = APIS.get(head.api_key)
        if api is None or api.way is Way.HIDDEN:
            raise FrameError(f"API {head.api_key} is not offered")
        if not api.offers(head.api_version) and head.api_key != _API_VERSIONS:
            raise FrameError(f"{api.name} is not offered in version {head.api_version}")
        before_login = self._security.has_sasl and not self._login.may_be_done
        if before_login and head.api_key not in _BEFORE_LOGIN:
            raise FrameError(f"{api.name} comes before a login")
        self._begins(head.api_key)
        is_local = api.way in (Way.STREAM, Way.GATEWAY, Way.REFUSED)
        is_whole = is_local or not api.offers(head.api_version) or head.api_key in _SASL
        limit = self._services.largest_frame if is_whole else Limits.passed_frame
        if before_login:
            limit = Limits.login_frame
        may_ask = self._login.is_done or not self._security.has_sasl
        self._is_dropped = limit < length <= Limits.passed_frame and may_ask and may_refuse_unread(head)
        if length > limit and not self._is_dropped:
            raise FrameError(f"{api.name} with {length} bytes, of at most {limit}")
        return is_whole and not self._is_dropped

    def _begins(self, api_key: int) -> None:
        """A request has begun."""
        self._services.metrics.requests[api_key].inc()
        self._login.is_under_way = api_key in _SASL
        if self._beating:
            self._services.held_up(self._client)

    def _take(self, piece: Piece) -> None:
        head = self._head
        assert head is not None  # noqa: S101 - no piece comes before its head
        if piece.is_last:
            self._ends()
        if not self._is_dropped:
            self._take_kept(head, piece)
        elif piece.is_last:
            slot = self._slots.await_local()
            slot.fill(codec.encode_response(refused_unread(head), head.correlation_id))

    def _ends(self) -> None:
        """A request has come to its end."""
        if self._patience.unfinished_s is not None:
            self._patience.unfinished_s = None
            self._services.unfinished.ends(self)
        if not self._security.has_sasl:
            self._patience.has_asked = True

    def _take_kept(self, head: RequestHead, piece: Piece) -> None:
        api = APIS[head.api_key]
        if not api.offers(head.api_version):
            # ApiVersions alone is answered then.
            slot = self._slots.await_local()
            slot.fill(codec.encode_response(unsupported_api_versions(), head.correlation_id))
        elif api.way in (Way.STREAM, Way.GATEWAY):
            self._take_local(head, bytes(piece.data))
        elif api.way is Way.REFUSED:
            self._services.refused(self._client, api.name)
            self._slots.await_local().fill(codec.encode_refusal(head))
        elif head.api_key in _SASL:
            self._take_login(head, bytes(piece.data))
        elif (refusal := self._own_topics.refusal(head, piece)) is not None:
            self._slots.await_local().fill(refusal)
        elif head.api_key == _PRODUCE:
            self._take_produce(head, piece)
        else:
            if piece.is_first:
                self._slots.await_upstream(head.correlation_id, self._rewriter(head))
            self._pass_on(piece.data)

    def _take_local(self, head: RequestHead, frame: bytes) -> None:
        if not self._security.has_sasl or self._login.is_done:
            if self._login.is_over(time.monotonic()):
                raise FrameError("the session of its login is over")
            self._read_local(head, frame)
            return

        def logged_in(_response: Any, _now_s: float) -> None:
            self._login.is_done = True
            try:
                self._read_local(head, frame)
            except FrameError as error:
                self._fail(f"{error}")
            self._go_on(self._login)

        # The broker alone knows whether a login is complete. If not, it closes the connection.
        self._holders.add(self._login)
        self._ask_broker(_SIGN_OF_LIFE, logged_in)

    def _read_local(self, head: RequestHead, frame: bytes) -> None:
        request = codec.decode_request(frame)
        if head.api_key == _FIND_COORDINATOR and request.message.key_type != 0:
            self._slots.await_upstream(head.correlation_id, self._rewriter(head))
            self._pass_on(frame)
            return
        if head.api_key == _HEARTBEAT:
            is_kept = len(frame) <= Limits.kept_frame
            self._beat = RepeatedBeat.of(request, frame, self._security.groups_prefix) if is_kept else None
            # Until it is known whether the coordinator can read this one.
            self._client.accepted = None
        asked_s = time.monotonic()
        slot = self._await_answer(head.api_key, bytes_kept(len(frame), request.elements))
        throttle_s = self._throttle(head.api_key, asked_s)
        alone = object()

        def reply(message: Any) -> None:
            self._waits_no_more(slot)
            self._services.metrics.answered(head.api_key, message, time.monotonic() - asked_s)
            if throttle_s:
                message.throttle_time_ms = round(1000 * throttle_s)
            slot.fill(codec.encode_response(message, head.correlation_id))
            self._go_on(alone)

        security = self._security
        exchange = guard(request, security.groups_prefix) if security.asks_rights else unguarded(request)
        if request.elements <= Limits.elements_alone:
            self._advance(exchange, None, slot, reply)
        else:
            self._holders.add(alone)
            # To read it may have taken so long that others come first.
            self._work.in_turn(lambda: self._advance(exchange, None, slot, reply))

    def _throttle(self, api_key: int, now_s: float) -> float:
        """Count a request for its user, or host; returns for how many seconds the client is not read then."""
        # Heartbeats of many members are one record.
        wait_s = 0.0 if api_key == _HEARTBEAT else self._guest.asks(now_s)
        if wait_s:
            self._holders.add(wait := object())
            asyncio.get_running_loop().call_later(wait_s, self._go_on, wait)
        return wait_s

    def _take_beat(self, data: bytes | memoryview) -> bool:
        """Take the last heartbeat again, if that is what has come, and nothing need be asked for it."""
        beat, accepted, now_s = self._beat, self._client.accepted, self.heard_s
        if beat is None or accepted is None or len(data) != beat.size:
            return False
        if not (self._services.turns.are_free and self._takes_again(beat, now_s)):
            return False
        if (correlation_id := beat.correlation_id_in(bytes(data))) is None:
            return False
        self._begins(_HEARTBEAT)
        slot = self._await_answer(_HEARTBEAT, beat.kept)

        def answer(error_code: int) -> None:
            self._waits_no_more(slot)
            seconds = time.monotonic() - now_s
            self._services.metrics.answered_with(_HEARTBEAT, error_code, seconds)
            slot.fill(codec.encode_heartbeat_response(beat.version, error_code, correlation_id))

        self._services.beat_again(accepted, answer)
        if not self._may_take():
            self.control()
        return True

    def _takes_again(self, beat: RepeatedBeat, now_s: float) -> bool:
        """Whether a frame that comes now is taken at once, and nothing need be asked for this heartbeat."""
        security = self._security
        return (
            not self._arrived
            and self._frames.is_between
            and self._may_take()
            and not self._transport.is_closing()
            and (not security.has_sasl or (self._login.is_done and not self._login.is_over(now_s)))
            and (not security.asks_rights or self._rights.is_granted(beat.right, now_s))
        )

    def _await_answer(self, api_key: int, size: int) -> LocalSlot:
        slot = self._slots.await_local()
        self._waiting[slot] = self._guest.holding, api_key, size
        self._beating += api_key == _HEARTBEAT
        self._services.pending.add(self._guest.holding, api_key, size)
        return slot

    def _waits_no_more(self, slot: LocalSlot) -> None:
        # A client that has gone waits for nothing, although its request may be answered later.
        if (counted := self._waiting.pop(slot, None)) is not None:
            self._beating -= counted[1] == _HEARTBEAT
            self._services.pending.remove(*counted)

    def _advance(self, exchange: Guard, told: Any, slot: LocalSlot, reply: Callable[[Any], None]) -> None:
        """Do what `exchange` wants next, until it ends with the response for `slot`."""
        if self._transport.is_closing():
            return
        try:
            wanted = _next(exchange, told, reply)
        except Exception:
            # A bug of ours, and this client's alone: the answers behind it are other clients'.
            log.exception("a response cannot be given")
            self._fail("a response cannot be given")
            return
        if wanted is None:
            self._go_on(slot)
            return
        if not isinstance(wanted, Ask):
            self._holders.add(slot)
            self._ask_rights(wanted, lambda it: self._advance(exchange, it, slot, reply))
            return
        if not wanted.is_last:
            self._holders.add(slot)
        self._services.answer(
            wanted.request,
            self._client,
            lambda it: self._work.in_turn(lambda: self._advance(exchange, it, slot, reply)),
        )
        if wanted.is_last:
            self._go_on(slot)

    def _ask_rights(self, needed: Iterable[Right], then: Callable[[frozenset[Right]], None]) -> None:
        if self._ending:
            # There is nobody left to ask, and what cannot be asked for is not granted.
            self.close(self._ending)
        else:
            self._rights.ask(needed, time.monotonic(), then)

    def _take_login(self, head: RequestHead, frame: bytes) -> None:
        """Pass a request of a login on, once everything before it has been answered."""
        if head.api_key == _SASL_HANDSHAKE and head.api_version == 0:
            # After it the client would send bytes that are no frames.
            error = Errors.UNSUPPORTED_VERSION.value
            refusal = SaslHandshakeResponse(version=0, error_code=error, mechanisms=[])
            self._slots.await_local().fill(codec.encode_response(refusal, head.correlation_id))
            self._ending = "frame error"
            return
        self._login.asked(codec.decode_request(frame).message)
        self._login.waiting = (head, frame)
        self._holders.add(self._login)

    def _pass_login(self, head: RequestHead, frame: bytes) -> None:
        self._login.waiting = None

        def answered(response: bytes) -> bytes:
            if head.api_key == _SASL_AUTHENTICATE:
                told = codec.decode_response(head.api_key, head.api_version, response)
                if self._login.answered(told, time.monotonic()):
                    self._enter_as_user(self._login.principal)
                if self._login.may_be_done:
                    self._patience.has_asked = True
            self._go_on(self._login)
            return response

        self._slots.await_upstream(head.correlation_id, answered)
        self._pass_on(frame)

    def _enter_as_user(self, name: str | None) -> None:
        user = self._services.logged_in(self, name)
        if user is not None:
            self._guest.joins_user(user, self)

    def _take_produce(self, head: RequestHead, piece: Piece) -> None:
        if piece.is_first:
            self._produce = ProduceBegin(head.api_version)
        if self._produce is None:
            self._pass_on(piece.data)
        elif (known := self._produce.take(piece)) is not None:
            self._produce = None
            if known.is_answered:
                self._slots.await_upstream(head.correlation_id, self._rewriter(head))
            self._pass_on(known.begin)

    def _rewriter(self, head: RequestHead) -> Begin | Callable[[bytes], bytes] | None:
        if APIS[head.api_key].way is Way.PASSED:
            return None
        return rewriter(head.api_key, head.api_version, self._services.address_of)

    # -- upstream --------------------------------------------------------------------------------------

    def _pass_on(self, data: bytes | memoryview) -> None:
        if self._upstream is None:
            self._upstream = Upstream(
                self._slots, self._upstream_read, self._upstream_lost, self.control, self._upstream_connected
            )
            serving = self._serving()
            if self._served_by is not None:
                # The client has been told the versions of that one.
                serving = [each for each in serving if each[0] == self._served_by]
            self._upstream.connect(serving, self._security.tls)
        self._upstream.write(data)

    def _upstream_connected(self, node_id: int, is_connected: bool) -> None:  # noqa: FBT001 - an answer
        self._services.connected(node_id, is_connected=is_connected)
        if is_connected:
            self._served_by = node_id

    def _ask_broker(self, message: Any, read: Callable[[Any, float], None]) -> None:
        """Ask the broker something on the client's connection, of which the client learns nothing."""

        def answered(frame: bytes) -> None:
            read(codec.decode_response(message.API_KEY, message.version, frame), time.monotonic())

        needed_by = next((each for each in self._holders if isinstance(each, LocalSlot)), None)
        self._slots.ask_upstream(_OWN_ID, answered, needed_by)
        self._pass_on(codec.encode_request(message, _OWN_ID, _OWN_NAME))

    def _upstream_read(self, error: FrameError | None) -> bool:
        if error is None:
            self._flush()
        else:
            self._fail(f"the broker's response {error}")
        return not self._transport.get_write_buffer_size()

    def _upstream_lost(self, reason: str) -> None:
        """The broker has gone. While it owed nothing the client need not know."""
        self._upstream = None
        self._services.metrics.upstream_errors.inc()
        # But a login is lost with it.
        if not (self._security.has_sasl or self._slots.expects_upstream) and self._frames.is_between:
            return
        # A client cannot be told that one response of many will not come: it asks again elsewhere.
        log.info("the connection of %s ends: %s", self._client.host, reason)
        self._ending = "broker"
        self._slots.break_off()
        self._flush()

    # -- responses and pressure --------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._write_out():
            self.control()

    def _filled(self) -> None:
        """Write an answer that has come. Mostly nothing else changes by it: that is so for each heartbeat."""
        if not self._write_out():
            return
        if not self._may_ask or self._upstream is not None or self._unread or self._slots.bytes_held:
            self.control()

    def _write_out(self) -> bool:
        """Write what can be written; returns whether the connection goes on."""
        if self._transport is None or self._transport.is_closing():
            return False
        if self._is_writable:
            for data in self._slots.take():
                self._services.metrics.sent.inc(len(data))
                self._transport.write(data)
                if self._transport.is_closing():
                    # The client has gone, which the first of these has shown.
                    return False
        if self._slots.bytes_held > Limits.held:
            self._fail(f"{self._slots.bytes_held} bytes of responses wait for one before them")
            return False
        # Its client has closed its side, or the transport would be closing.
        is_over = self._patience.ended_s is not None
        if (self._ending or is_over) and not self.is_owed:
            has_said_all = not (self._arrived or self._holders)
            if self._ending or has_said_all:
                self.close(self._ending or self._reason)
                return False
        if self._login.waiting is not None and not self.is_owed:
            self._pass_login(*self._login.waiting)
        return True

    def control(self) -> None:
        """Read from a side only while what it sends can be taken."""
        if self._transport is None or self._transport.is_closing():
            return
        upstream = self._upstream
        may_ask = (
            self._is_writable
            and self._may_take()
            and not self._awaits_turn
            and (upstream is None or upstream.is_writable)
        )
        if may_ask is not self._may_ask:
            self._may_ask = may_ask
            set_reading(self._transport, may_ask)
            if may_ask and self._arrived and not self._is_taking:
                asyncio.get_running_loop().call_soon(self._take_arrived)
        if upstream is not None:
            upstream.set_reading(self._is_writable and self._slots.may_read_upstream)
        self._tell_unread()

    def _tell_unread(self) -> None:
        count = self._slots.bytes_held
        if not self._is_writable:
            count += self._transport.get_write_buffer_size()
        if self._upstream is not None and not self._upstream.is_writable:
            count += self._upstream.bytes_unsent
        if count != self._unread:
            self._unread = count
            self._services.unread.hold(self, count, time.monotonic())


def _next(exchange: Guard, told: Any, reply: Callable[[Any], None]) -> Iterable[Right] | Ask | None:
    """Go on with `exchange`; returns what it wants, or None after it has ended with the response."""
    try:
        return exchange.send(told)
    except StopIteration as end:
        reply(end.value)
        return None
