"""One client's connection: its own connection to a broker, and the slots in between.

The connection cuts the client's bytes into frames. Frames of passed requests go upstream as
they arrive. Frames of local requests are kept until they are whole, and go to the gateway. Only the first
slot is written to the client.

Two kinds of request hold back what comes after them, as a broker works on one request of a connection at a
time: a local one whose rights have to be asked for, and one of a login (SASL), which waits for its turn.
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
from group_coordinator.gateway.addresses import rewrite_api_versions, unsupported_api_versions
from group_coordinator.gateway.apis import APIS, Way
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import (
    REQUEST_HEAD_BYTES,
    Frames,
    Piece,
    RequestHead,
    read_request_head,
)
from group_coordinator.gateway.guards import Ask, guard
from group_coordinator.gateway.limits import Limits
from group_coordinator.gateway.local import Client
from group_coordinator.gateway.login import Login
from group_coordinator.gateway.repeated import RepeatedBeat
from group_coordinator.gateway.rights import Rights
from group_coordinator.gateway.security import Security
from group_coordinator.gateway.slots import LocalSlot, Slots
from group_coordinator.gateway.transports import has_hung_up, set_reading
from group_coordinator.gateway.upstream import Serving, Upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from group_coordinator.gateway.beats import Beat
    from group_coordinator.gateway.guards import Guard
    from group_coordinator.gateway.limits import Budget, Pending
    from group_coordinator.gateway.metrics import GatewayMetrics
    from group_coordinator.gateway.rights import Right

__all__ = ["ClientConnection", "Services"]

log = logging.getLogger(__name__)

_API_VERSIONS, _FIND_COORDINATOR, _HEARTBEAT, _PRODUCE = 18, 10, 12, 0
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_SASL = (_SASL_HANDSHAKE, _SASL_AUTHENTICATE)
_OWN_ID, _OWN_NAME = 0, "group-coordinator-gateway"
"""Correlation id and client id of what the gateway asks a broker on its own account."""
_SIGN_OF_LIFE = MetadataRequest(version=1, topics=[])
"""A broker answers it only to a client that has logged in."""
_ENDPOINTS_VERSION = 10
"""The version of Produce from which on its responses may name addresses."""


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

    def held_up(self, client: Client) -> None:
        """A later request of the client waits for its newest heartbeat."""

    def logged_in(self, client: Client, name: str | None) -> None:
        """The broker has accepted the client's login under this name; None if it is not known."""

    def rewrite(self, message: Any) -> None:
        """Replace the addresses in a broker's response."""

    @property
    def metrics(self) -> GatewayMetrics:
        """The counters of the gateway."""

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

    _buffer = memoryview(bytearray(_READ_BYTES))
    """All connections share it: memory for each read would be mapped, cut and unmapped each time.

    asyncio fills it in parts where TLS has several records. A part of a bytearray would be a copy.
    """

    def __init__(
        self, services: Services, node_id: int, serving: Callable[[], Serving], security: Security
    ) -> None:
        self._services = services
        self._node_id, self._serving = node_id, serving
        self._security = security
        self._rights = Rights(self._ask_broker, services.metrics.right_answered)
        self._login = Login()
        self._arrived: deque[Iterator[Piece]] = deque()
        """Pieces that the client has sent and that are not taken yet."""
        self._holder: object = None
        """The request that later ones have to wait for; None if they need not."""
        self._is_taking = False
        self._slots = Slots(self._flush)
        self._frames = Frames(REQUEST_HEAD_BYTES, self._begin)
        self._beat: RepeatedBeat | None = None
        """The last heartbeat that was read; None if it was too long to be kept."""
        self._head: RequestHead | None = None
        self._held: list[bytes | memoryview] = []
        """The begin of a Produce of which it is not known yet whether it has a response."""
        self._waiting: dict[LocalSlot, tuple[int, int]] = {}
        """Local requests without a response: the key of the API, and the size."""
        self._beating = 0
        """The number of heartbeats among them."""
        self._transport: Any = None
        self._upstream: Upstream | None = None
        self._served_by: int | None = None
        """The broker that has served the client; None if none has."""
        self._client = Client("", node_id)
        self._is_writable = True
        self._ending = ""
        """Why the connection ends once what can still be answered has been; "" if it does not."""
        self._heard_s = time.monotonic()
        """When the client last sent something; or connected, if it never did."""
        self._unfinished_s: float | None = None
        """Since when a request has been kept that is not whole; None if there is none."""
        self._stuck_s: float | None = None
        """Since when the client has not read; None if it does."""
        self._unread = 0
        """Bytes that are kept for sides that do not read, as told last."""
        self._may_ask = True
        self._reason = "client"

    @property
    def client(self) -> Client:
        """The client, for the code that answers its requests."""
        return self._client

    @property
    def is_owed(self) -> bool:
        """Whether the client waits for anything."""
        return len(self._slots) > 0

    # -- the client ----------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """The client has connected."""
        self._transport = transport
        transport.set_write_buffer_limits(high=Limits.unwritten)
        host = (transport.get_extra_info("peername") or ("",))[0]
        self._client = Client(f"/{host}", self._node_id)
        if self._services.pending.is_full:
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
        self._heard_s = time.monotonic()
        self._services.metrics.received.inc(len(data))
        if not self._take_beat(data):
            self._arrived.append(self._frames.receive(data))
            self._take_arrived()

    def _take_arrived(self) -> None:
        """Take what the client has sent, up to a request that holds back what comes after it."""
        if self._transport.is_closing():
            return
        self._is_taking = True
        try:
            while self._arrived and self._may_take():
                for piece in self._arrived[0]:
                    self._take(piece)
                    if not self._may_take():
                        break
                else:
                    self._arrived.popleft()
        except FrameError as error:
            self._arrived.clear()
            self._fail(f"{error}")
            return
        finally:
            self._is_taking = False
        self._hold()
        self._flush()

    def _hold(self) -> None:
        """Tell of what is kept until more comes."""
        count = self._frames.bytes_held + sum(map(len, self._held))
        if count and self._unfinished_s is None:
            self._unfinished_s = self._heard_s
        if count or self._unfinished_s is not None:
            self._services.unfinished.hold(self, count, time.monotonic())

    def _may_take(self) -> bool:
        return self._holder is None and not self._ending

    def _go_on(self, holder: object) -> None:
        """What comes next need not wait for this one any more."""
        if self._holder is holder:
            self._holder = None
            if not self._is_taking:
                # Not at once, because the caller is in the middle of something.
                asyncio.get_running_loop().call_soon(self._take_arrived)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._is_writable = False
        self._stuck_s = time.monotonic()
        self.control()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_writable = True
        self._stuck_s = None
        self._flush()

    def connection_lost(self, _error: Exception | None) -> None:
        """The client has gone: what is in the log stays there."""
        if self._upstream is not None:
            self._upstream.close()
        for slot in list(self._waiting):
            self._waits_no_more(slot)
        self._services.closed(self, self._reason)

    def expire(self, now_s: float) -> None:
        """End the connection if nothing has come for too long. A client that is owed something may wait."""
        if not self._may_ask:
            if has_hung_up(self._transport):
                # It may have sent again, elsewhere, all that is not read yet: an old commit would take its
                # group back.
                self.abort("client")
                return
            # While the gateway does not read it, it cannot finish its request.
            self._unfinished_s = None if self._unfinished_s is None else now_s
        if self._stuck_s is not None:
            if now_s - self._stuck_s > Limits.idle_s:
                self.abort("idle")
        elif self._unfinished_s is not None:
            if now_s - self._unfinished_s > Limits.local_frame_s:
                self.abort("unfinished requests")
        elif not self.is_owed:
            limit_s = Limits.first_frame_s if self._head is None else Limits.idle_s
            if now_s - self._heard_s > limit_s:
                self.close("idle")
                return
        self._keep_login(now_s)

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
            self._transport.close()

    def abort(self, reason: str) -> None:
        """End the connection at once."""
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, reason: str) -> None:
        log.warning("the connection of %s is closed: %s", self._client.host, reason)
        self._services.metrics.frame_errors.inc()
        self.abort("frame error")

    # -- requests --------------------------------------------------------------------------------------

    def _begin(self, head_bytes: bytes, length: int) -> bool:
        head = self._head = read_request_head(head_bytes)
        api = APIS.get(head.api_key)
        if api is None or api.way is Way.HIDDEN:
            raise FrameError(f"API {head.api_key} is not offered")
        if not api.offers(head.api_version) and head.api_key != _API_VERSIONS:
            raise FrameError(f"{api.name} is not offered in version {head.api_version}")
        self._begins(head.api_key)
        is_whole = (
            api.way in (Way.STREAM, Way.GATEWAY) or not api.offers(head.api_version) or head.api_key in _SASL
        )
        limit = Limits.local_frame if is_whole else Limits.passed_frame
        if length > limit:
            raise FrameError(f"{api.name} with {length} bytes, of at most {limit}")
        return is_whole

    def _begins(self, api_key: int) -> None:
        """A request has begun."""
        self._services.metrics.requests[api_key].inc()
        self._login.is_under_way = api_key in _SASL
        if self._beating:
            self._services.held_up(self._client)

    def _take(self, piece: Piece) -> None:
        head = self._head
        assert head is not None  # noqa: S101 - no piece comes before its head
        if piece.is_last and self._unfinished_s is not None:
            self._unfinished_s = None
            self._services.unfinished.ends(self)
        api = APIS[head.api_key]
        if not api.offers(head.api_version):
            # ApiVersions alone is answered then.
            slot = self._slots.await_local()
            slot.fill(codec.encode_response(unsupported_api_versions(), head.correlation_id))
        elif api.way in (Way.STREAM, Way.GATEWAY):
            self._take_local(head, bytes(piece.data))
        elif head.api_key in _SASL:
            self._take_login(head, bytes(piece.data))
        elif head.api_key == _PRODUCE:
            self._take_produce(head, piece)
        else:
            if piece.is_first:
                self._slots.await_upstream(head.correlation_id, self._rewriter(head))
            self._pass_on(piece.data)

    def _take_local(self, head: RequestHead, frame: bytes) -> None:
        request = codec.decode_request(frame)
        if head.api_key == _FIND_COORDINATOR and request.message.key_type != 0:
            self._slots.await_upstream(head.correlation_id, self._rewriter(head))
            self._pass_on(frame)
            return
        if head.api_key == _HEARTBEAT:
            is_kept = len(frame) <= Limits.kept_frame
            self._beat = RepeatedBeat.of(request, frame) if is_kept else None
            # Until it is known whether the coordinator can read this one.
            self._client.accepted = None
        asked_s = time.monotonic()
        slot = self._await_answer(head.api_key, len(frame))

        def reply(message: Any) -> None:
            self._waits_no_more(slot)
            self._services.metrics.answered(head.api_key, message, time.monotonic() - asked_s)
            frame = codec.encode_response(message, head.correlation_id)
            slot.fill(frame)

        story = guard(request) if self._security.asks_rights else _unguarded(request)
        if not self._security.has_sasl or self._login.is_done:
            if self._login.is_over(asked_s):
                raise FrameError("the session of its login is over")
            self._advance(story, None, slot, reply)
            return

        def logged_in(_response: Any, _now_s: float) -> None:
            self._login.is_done = True
            self._advance(story, None, slot, reply)

        # The broker alone knows whether a login is complete. If not, it closes the connection.
        self._holder = slot
        self._ask_broker(_SIGN_OF_LIFE, logged_in)

    def _take_beat(self, data: bytes | memoryview) -> bool:
        """Take the last heartbeat again, if that is what has come, and nothing need be asked for it."""
        beat, accepted, now_s = self._beat, self._client.accepted, self._heard_s
        if beat is None or accepted is None or len(data) != beat.size:
            return False
        if not self._takes_again(beat, now_s):
            return False
        if (correlation_id := beat.correlation_id_in(bytes(data))) is None:
            return False
        self._begins(_HEARTBEAT)
        slot = self._await_answer(_HEARTBEAT, beat.size)

        def answer(error_code: int) -> None:
            self._waits_no_more(slot)
            seconds = time.monotonic() - now_s
            self._services.metrics.answered_with(_HEARTBEAT, error_code, seconds)
            slot.fill(codec.encode_heartbeat_response(beat.version, error_code, correlation_id))

        self._services.beat_again(accepted, answer)
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
        self._waiting[slot] = api_key, size
        self._beating += api_key == _HEARTBEAT
        self._services.pending.add(api_key, size)
        return slot

    def _waits_no_more(self, slot: LocalSlot) -> None:
        # A client that has gone waits for nothing, although its request may be answered later.
        if (counted := self._waiting.pop(slot, None)) is not None:
            self._beating -= counted[0] == _HEARTBEAT
            self._services.pending.remove(*counted)

    def _advance(self, story: Guard, told: Any, slot: LocalSlot, reply: Callable[[Any], None]) -> None:
        """Do what `story` wants next, until it ends with the response for `slot`."""
        if self._transport.is_closing():
            return
        try:
            wanted = _next(story, told, reply)
        except Exception:
            # A bug of ours, and this client's alone: the answers behind it are other clients'.
            log.exception("a response cannot be given")
            self._fail("a response cannot be given")
            return
        if wanted is None:
            self._go_on(slot)
            return
        if not isinstance(wanted, Ask):
            self._holder = slot
            self._ask_rights(wanted, lambda it: self._advance(story, it, slot, reply))
            return
        if not wanted.is_last:
            self._holder = slot
        self._services.answer(wanted.request, self._client, lambda it: self._advance(story, it, slot, reply))
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
        self._holder = self._login

    def _pass_login(self, head: RequestHead, frame: bytes) -> None:
        self._login.waiting = None

        def answered(response: bytes) -> bytes:
            if head.api_key == _SASL_AUTHENTICATE:
                told = codec.decode_response(head.api_key, head.api_version, response)
                if self._login.answered(told, time.monotonic()):
                    self._services.logged_in(self._client, self._login.principal)
            self._go_on(self._login)
            return response

        self._slots.await_upstream(head.correlation_id, answered)
        self._pass_on(frame)

    def _take_produce(self, head: RequestHead, piece: Piece) -> None:
        # Whether there will be a response stands in the request, behind a text of any length.
        if not piece.is_first and not self._held:
            self._pass_on(piece.data)
            return
        self._held.append(piece.data)
        begin = b"".join(self._held)
        acks = codec.produce_acks(begin, head.api_version)
        if acks is None:
            if piece.is_last or len(begin) > Limits.local_frame:
                raise FrameError(f"Produce has no acks in its first {len(begin)} bytes")
            return
        self._held = []
        if acks != 0:
            self._slots.await_upstream(head.correlation_id, self._rewriter(head))
        self._pass_on(begin)

    def _rewriter(self, head: RequestHead) -> Callable[[bytes], bytes] | None:
        if APIS[head.api_key].way is Way.PASSED:
            return None
        if head.api_key == _PRODUCE and head.api_version < _ENDPOINTS_VERSION:
            return None

        def rewrite(frame: bytes) -> bytes:
            if head.api_key == _API_VERSIONS and codec.is_api_versions_error(frame):
                return frame
            if head.api_key == _PRODUCE and not codec.produce_names_brokers(frame, head.api_version):
                return frame
            message = codec.decode_response(head.api_key, head.api_version, frame)
            if head.api_key == _API_VERSIONS:
                rewrite_api_versions(message)
            else:
                self._services.rewrite(message)
            return codec.encode_response(message, head.correlation_id)

        return rewrite

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

        needed_by = self._holder if isinstance(self._holder, LocalSlot) else None
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
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_writable:
            for data in self._slots.take():
                self._services.metrics.sent.inc(len(data))
                self._transport.write(data)
                if self._transport.is_closing():
                    # The client has gone, which the first of these has shown.
                    return
        if self._slots.bytes_held > Limits.held:
            self._fail(f"{self._slots.bytes_held} bytes of responses wait for one before them")
            return
        if self._ending and not self.is_owed:
            self.close(self._ending)
            return
        if self._login.waiting is not None and not self.is_owed:
            self._pass_login(*self._login.waiting)
        self.control()

    def control(self) -> None:
        """Read from a side only while what it sends can be taken."""
        if self._transport is None:
            return
        upstream = self._upstream
        may_ask = (
            self._is_writable
            and self._may_take()
            and not self._services.pending.is_full
            and len(self._slots) < Limits.slots
            and (upstream is None or upstream.is_writable)
        )
        if may_ask is not self._may_ask:
            self._may_ask = may_ask
            set_reading(self._transport, may_ask)
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


def _next(story: Guard, told: Any, reply: Callable[[Any], None]) -> Iterable[Right] | Ask | None:
    """Go on with `story`; returns what it wants, or None after it has ended with the response."""
    try:
        return story.send(told)
    except StopIteration as end:
        reply(end.value)
        return None


def _unguarded(request: codec.Request) -> Guard:
    return (yield Ask(request))
