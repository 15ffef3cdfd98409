"""One client's connection: it carries a conversation (`conversation.py`), and decides nothing."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from group_coordinator.gateway.conversation import Conversation
from group_coordinator.gateway.limits import Limits
from group_coordinator.gateway.transports import has_hung_up, set_reading
from group_coordinator.gateway.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.addresses import Serving
    from group_coordinator.gateway.needs import Services
    from group_coordinator.gateway.security import Security

_READ_BYTES = 256 * 1024
"""Most that is read of a client at once."""
_COPIED_BYTES = 64 * 1024
"""Up to so many are copied out of the buffer. More keep it, and the next ones get another."""


class ClientConnection(asyncio.BufferedProtocol):
    """A client, which was accepted on a port that stands for the broker `node_id`.

    `serving`: tells which brokers can serve it now.
    """

    __slots__ = (
        "_tls",
        "_transport",
        "_upstream",
        "abort",
        "close",
        "conversation",
        "is_closing",
        "send",
        "send_to_broker",
        "unsent",
    )

    _buffer = memoryview(bytearray(_READ_BYTES))
    """All connections share it: memory for each read would be mapped, cut and unmapped each time.

    asyncio fills it in parts where TLS has several records. A part of a bytearray would be a copy.
    """

    # Of `Effects`: the transports' own methods. Each of ours would be one more call, and a small request has
    # seven of them.
    send: Callable[[bytes | memoryview], None]
    unsent: Callable[[], int]
    is_closing: Callable[[], bool]
    close: Callable[[], None]
    abort: Callable[[], None]
    send_to_broker: Callable[[bytes | bytearray | memoryview], None]

    def __init__(
        self, services: Services, node_id: int, serving: Callable[[], Serving], security: Security
    ) -> None:
        self.conversation = Conversation(self, services, security, node_id, serving, time.monotonic())
        """Nobody speaks to it before the client has connected."""
        self._tls = security.tls
        self._transport: Any = None
        self._upstream: Upstream | None = None

    # -- the event loop calls --------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """The client has connected."""
        self._transport = transport
        self.send, self.unsent = transport.write, transport.get_write_buffer_size
        self.is_closing, self.close, self.abort = transport.is_closing, transport.close, transport.abort
        transport.set_write_buffer_limits(high=Limits.unwritten)
        host, *_ = transport.get_extra_info("peername") or ("",)
        self.conversation.begins(host)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Give the memory that the client's data is to be put into."""
        return ClientConnection._buffer

    def buffer_updated(self, count: int) -> None:
        """Take `count` bytes of the client, which are in the buffer."""
        data = ClientConnection._buffer[:count]
        if count > _COPIED_BYTES:
            # Requests that wait, and parts that are not sent yet, may be views of it.
            ClientConnection._buffer = memoryview(bytearray(_READ_BYTES))
            self.conversation.receive(data, time.monotonic())
        else:
            self.conversation.receive(bytes(data), time.monotonic())

    def eof_received(self) -> bool:
        """The client has closed its side. With TLS there is no half of a connection."""
        self.conversation.receive_end(time.monotonic())
        has_tls = self._transport.get_extra_info("sslcontext") is not None
        return not has_tls and not self._transport.is_closing()

    def pause_writing(self) -> None:
        """The client does not read."""
        self.conversation.client_reads(time.monotonic(), is_reading=False)

    def resume_writing(self) -> None:
        """The client reads again."""
        self.conversation.client_reads(time.monotonic(), is_reading=True)

    def connection_lost(self, _error: Exception | None) -> None:
        """The client has gone."""
        if self._upstream is not None:
            self._upstream.close()
        self.conversation.ended()

    # -- the conversation calls (`Effects`) ------------------------------------------------------------

    def read(self, *, is_reading: bool) -> None:
        """Read from the client, or let it wait."""
        set_reading(self._transport, is_reading)

    def has_hung_up(self) -> bool:
        """Whether the client has gone, which nobody tells while it is not read."""
        return has_hung_up(self._transport)

    def connect_broker(self, serving: Serving) -> None:
        """Connect to the first of these brokers that can be reached."""
        self._upstream = Upstream(self)
        self.send_to_broker = self._upstream.write
        self._upstream.connect(serving, self._tls)

    def unsent_to_broker(self) -> int:
        """Return the number of bytes that the broker has not taken yet."""
        return 0 if self._upstream is None else self._upstream.bytes_unsent

    def read_broker(self, *, is_reading: bool) -> None:
        """Read from the broker, or let it wait."""
        assert self._upstream is not None  # noqa: S101 - it is connected before
        self._upstream.set_reading(is_reading=is_reading)

    def soon(self, go: Callable[[], None]) -> None:
        """Call `go` when the caller has ended."""
        asyncio.get_running_loop().call_soon(go)

    def later(self, seconds: float, go: Callable[[], None]) -> None:
        """Call `go` when so much time has passed."""
        asyncio.get_running_loop().call_later(seconds, go)

    # -- the broker ------------------------------------------------------------------------------------

    def broker_lost(self, reason: str) -> None:
        """The connection to the broker has ended, or could not be made."""
        self._upstream = None
        del self.send_to_broker
        self.conversation.broker_lost(reason)
