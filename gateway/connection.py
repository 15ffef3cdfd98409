"""One client's connection: its own connection to a broker, and the slots in between.

The connection cuts into frames whatever arrives from the client. Frames of passed requests go upstream as
they arrive. Frames of local requests are kept until they are whole, and go to the gateway. Only the first
slot is written to the client.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

from group_coordinator.gateway import codec
from group_coordinator.gateway.addresses import rewrite_api_versions, unsupported_api_versions
from group_coordinator.gateway.apis import APIS, Way
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import (
    REQUEST_HEAD_BYTES,
    RESPONSE_HEAD_BYTES,
    Frames,
    Piece,
    RequestHead,
    read_request_head,
)
from group_coordinator.gateway.local import Client
from group_coordinator.gateway.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.limits import Pending
    from group_coordinator.gateway.metrics import GatewayMetrics

__all__ = ["ClientConnection", "Limits", "Services"]

log = logging.getLogger(__name__)

_API_VERSIONS, _FIND_COORDINATOR, _PRODUCE = 18, 10, 0
_ENDPOINTS_VERSION = 10
"""The version of Produce from which on its responses may name addresses."""


class Limits:
    """The limits of one connection. Sizes in bytes, times in seconds."""

    local_frame = 1_000_000
    passed_frame = 100 * 1024 * 1024
    slots = 1_000
    unwritten = 256 * 1024
    first_frame_s = 30.0
    """Until a client has sent its first request."""
    local_frame_s = 60.0
    """Until a request of a group that has begun is whole, however steadily its bytes come."""
    idle_s = 600.0
    """As `connections.max.idle.ms` of a broker."""


class Services(Protocol):
    """The gateway, as a connection needs it."""

    def answer(self, request: codec.Request, client: Client, reply: Callable[[Any], None]) -> None:
        """Answer a local request; `reply` is called once, with Kafka's response."""

    def rewrite(self, message: Any) -> None:
        """Replace the addresses in a broker's response."""

    @property
    def metrics(self) -> GatewayMetrics:
        """The counters of the gateway."""

    @property
    def pending(self) -> Pending:
        """The local requests of all clients."""

    def holds(self, connection: ClientConnection, count: int) -> None:
        """The connection keeps so many bytes of a request that is not whole yet."""

    def finishes(self, connection: ClientConnection) -> None:
        """A request that the connection has kept is whole."""

    def connected(self, node_id: int, *, is_connected: bool) -> None:
        """A connection to this broker was made, or could not be."""

    def closed(self, connection: ClientConnection, reason: str) -> None:
        """The connection has gone."""


class ClientConnection(asyncio.Protocol):
    """A client, which was accepted on a port that stands for the broker `node_id` at `upstream`."""

    def __init__(self, services: Services, node_id: int, upstream: tuple[str, int]) -> None:
        self._services = services
        self._node_id, self._address = node_id, upstream
        self._slots = Slots(self._flush)
        self._frames = Frames(REQUEST_HEAD_BYTES, self._begin)
        self._head: RequestHead | None = None
        self._held: list[bytes | memoryview] = []
        """The begin of a Produce of which it is not known yet whether it has a response."""
        self._transport: Any = None
        self._upstream: _Upstream | None = None
        self._client = Client("", node_id)
        self._is_writable = True
        self._is_ending = False
        """Whether the broker has gone: what can still be answered is, and then the client is closed."""
        self._heard_s = time.monotonic()
        """When the client last sent something; or connected, if it never did."""
        self._unfinished_s: float | None = None
        """Since when a request has been kept that is not whole; None if there is none."""
        self._stuck_s: float | None = None
        """Since when the client has not read; None if it does."""
        self._may_ask = True
        self._reason = "client"

    @property
    def client(self) -> Client:
        """The client, as those know it who answer its requests."""
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

    def data_received(self, data: bytes) -> None:
        """The client has sent something."""
        self._heard_s = time.monotonic()
        self._services.metrics.received.inc(len(data))
        try:
            for piece in self._frames.receive(data):
                self._take(piece)
        except FrameError as error:
            self._fail(f"{error}")
            return
        self._hold()
        self._flush()

    def _hold(self) -> None:
        """Tell of what is kept until more comes."""
        count = self._frames.bytes_held + sum(map(len, self._held))
        if count and self._unfinished_s is None:
            self._unfinished_s = self._heard_s
        if count or self._unfinished_s is not None:
            self._services.holds(self, count)

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
        self._services.closed(self, self._reason)

    def expire(self, now_s: float) -> None:
        """End the connection if nothing has come for too long. A client that is owed something may wait."""
        if not self._may_ask:
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
        self._services.metrics.requests[head.api_key].inc()
        is_whole = api.way in (Way.STREAM, Way.GATEWAY) or not api.offers(head.api_version)
        limit = Limits.local_frame if is_whole else Limits.passed_frame
        if length > limit:
            raise FrameError(f"{api.name} with {length} bytes, of at most {limit}")
        return is_whole

    def _take(self, piece: Piece) -> None:
        head = self._head
        assert head is not None  # noqa: S101 - no piece comes before its head
        if piece.is_last and self._unfinished_s is not None:
            self._unfinished_s = None
            self._services.finishes(self)
        api = APIS[head.api_key]
        if not api.offers(head.api_version):
            # ApiVersions alone is answered then.
            slot = self._slots.await_local()
            slot.fill(codec.encode_response(unsupported_api_versions(), head.correlation_id))
        elif api.way in (Way.STREAM, Way.GATEWAY):
            self._take_local(head, bytes(piece.data))
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
        slot = self._slots.await_local()
        asked_s = time.monotonic()
        size = len(frame)
        self._services.pending.add(head.api_key, size)

        def reply(message: Any) -> None:
            self._services.pending.remove(head.api_key, size)
            self._services.metrics.answered(head.api_key, message, time.monotonic() - asked_s)
            try:
                frame = codec.encode_response(message, head.correlation_id)
            except Exception:
                # A bug of ours, and this client's alone: the answers behind it are other clients'.
                log.exception("the response to %s cannot be written", APIS[head.api_key].name)
                self._fail("a response cannot be written")
                return
            slot.fill(frame)

        self._services.answer(request, self._client, reply)

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
            self._upstream = _Upstream(
                self._slots, self._upstream_read, self._upstream_lost, self.control, self._upstream_connected
            )
            self._upstream.connect(self._address)
        self._upstream.write(data)

    def _upstream_connected(self, is_connected: bool) -> None:  # noqa: FBT001 - an answer
        self._services.connected(self._node_id, is_connected=is_connected)

    def _upstream_read(self, error: FrameError | None) -> None:
        if error is None:
            self._flush()
        else:
            self._fail(f"the broker's response {error}")

    def _upstream_lost(self, reason: str) -> None:
        """The broker has gone. While it owed nothing the client need not know."""
        self._upstream = None
        self._services.metrics.upstream_errors.inc()
        if not self._slots.expects_upstream and self._frames.is_between:
            return
        # A client cannot be told that one response of many will not come: it asks again elsewhere.
        log.info("the connection of %s ends: %s", self._client.host, reason)
        self._is_ending = True
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
        if self._is_ending and not self.is_owed:
            self.close("broker")
            return
        self.control()

    def control(self) -> None:
        """Read from whom what he says can be taken, and from nobody else."""
        upstream = self._upstream
        self._may_ask = (
            self._is_writable
            and not self._is_ending
            and not self._services.pending.is_full
            and len(self._slots) < Limits.slots
            and (upstream is None or upstream.is_writable)
        )
        _set_reading(self._transport, self._may_ask)
        if upstream is not None:
            upstream.set_reading(self._is_writable and self._slots.may_read_upstream)


class _Upstream(asyncio.Protocol):
    """A client's own connection to a broker."""

    def __init__(
        self,
        slots: Slots,
        on_read: Callable[[FrameError | None], None],
        on_lost: Callable[[str], None],
        on_pressure: Callable[[], None],
        on_connect: Callable[[bool], None],
    ) -> None:
        self._slots = slots
        self._frames = Frames(RESPONSE_HEAD_BYTES, self._begin)
        self._on_read, self._on_lost, self._on_pressure = on_read, on_lost, on_pressure
        self._on_connect = on_connect
        self._transport: Any = None
        self._unsent: list[bytes | memoryview] = []
        """Data that waits for the connection."""
        self._is_open = True
        self.is_writable = False
        self._connecting: asyncio.Task[None] | None = None

    def connect(self, address: tuple[str, int]) -> None:
        """Connect, and send then what has been written meanwhile."""
        self._connecting = asyncio.get_running_loop().create_task(self._connect(address))

    async def _connect(self, address: tuple[str, int]) -> None:
        try:
            await asyncio.wait_for(
                asyncio.get_running_loop().create_connection(lambda: self, *address), timeout=10
            )
        except (OSError, TimeoutError) as error:
            self._on_connect(False)
            self._lose(f"no connection to {address[0]}:{address[1]}: {error}")

    def write(self, data: bytes | memoryview) -> None:
        """Send something, or keep it until there is a connection."""
        if self._transport is None:
            # What a client has sent is a view of a buffer that it uses again.
            self._unsent.append(bytes(data))
        else:
            self._transport.write(data)

    def set_reading(self, is_reading: bool) -> None:  # noqa: FBT001 - a switch
        """Read, or let the broker wait."""
        _set_reading(self._transport, is_reading)

    def close(self) -> None:
        """End it."""
        self._is_open = False
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        """Connected."""
        if not self._is_open:
            transport.abort()
            return
        self._transport = transport
        self._on_connect(True)
        transport.set_write_buffer_limits(high=Limits.unwritten)
        for data in self._unsent:
            transport.write(data)
        self._unsent = []
        self.is_writable = True
        self._on_pressure()

    def data_received(self, data: bytes) -> None:
        """The broker has sent something."""
        try:
            for piece in self._frames.receive(data):
                self._slots.upstream_piece(piece)
        except FrameError as error:
            self._on_read(error)
            return
        self._on_read(None)

    def _begin(self, head: bytes, length: int) -> bool:
        is_whole = self._slots.upstream_begins(head)
        if length > Limits.passed_frame:
            raise FrameError(f"has {length} bytes, of at most {Limits.passed_frame}")
        return is_whole

    def pause_writing(self) -> None:
        """The broker does not read."""
        self.is_writable = False
        self._on_pressure()

    def resume_writing(self) -> None:
        """The broker reads again."""
        self.is_writable = True
        self._on_pressure()

    def connection_lost(self, error: Exception | None) -> None:
        """The broker has ended the connection."""
        self._lose(str(error or "the broker has closed the connection"))

    def _lose(self, reason: str) -> None:
        if self._is_open:
            self._is_open = False
            self._on_lost(reason)


def _set_reading(transport: Any, is_reading: bool) -> None:  # noqa: FBT001 - a switch
    if transport is None or transport.is_closing() or transport.is_reading() == is_reading:
        return
    if is_reading:
        transport.resume_reading()
    else:
        transport.pause_reading()
