"""A client's own connection to a broker, which answers what the gateway passes on."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from group_coordinator.gateway.limits import Limits
from group_coordinator.gateway.transports import set_reading

if TYPE_CHECKING:
    import ssl

    from group_coordinator.gateway.addresses import Serving
    from group_coordinator.gateway.connection import ClientConnection

_READ_BYTES = 256 * 1024
"""Most that is read at once. Each read and each write costs more than what is done between them."""


class Upstream(asyncio.BufferedProtocol):
    """The own connection of `client` to a broker."""

    __slots__ = ("_client", "_connecting", "_is_open", "_node_id", "_transport", "_unsent")

    _buffer = memoryview(bytearray(_READ_BYTES))
    """All connections share it. It is filled and emptied without a pause between.

    asyncio fills it in parts where TLS has several records. A part of a bytearray would be a copy.
    """

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._transport: Any = None
        self._node_id = -1
        """The broker that it connects to, or is connected to."""
        self._unsent: list[bytes | memoryview] = []
        """Data that waits for the connection."""
        self._is_open = True
        self._connecting: asyncio.Task[None] | None = None

    def connect(self, serving: Serving, tls: ssl.SSLContext | None) -> None:
        """Connect to the first that can be reached, and send then what has been written meanwhile."""
        self._connecting = asyncio.get_running_loop().create_task(self._connect(serving, tls))

    async def _connect(self, serving: Serving, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        failures = []
        for node_id, (host, port) in serving:
            self._node_id = node_id
            try:
                await asyncio.wait_for(loop.create_connection(lambda: self, host, port, ssl=tls), timeout=10)
            except (OSError, TimeoutError) as error:
                failures.append(f"no connection to {host}:{port}: {error}")
                self._client.conversation.broker_connected(node_id, is_connected=False)
            else:
                return
        self._lose("; ".join(failures) or "the broker that has served it is away")

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send something, or keep it until there is a connection."""
        if self._transport is None:
            # The bytes are a view of a buffer that the client's connection uses again.
            self._unsent.append(bytes(data))
        else:
            self._transport.write(data)

    @property
    def bytes_unsent(self) -> int:
        """Bytes that wait until the broker reads, or until there is a connection."""
        waiting: int = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return waiting + sum(map(len, self._unsent))

    def set_reading(self, *, is_reading: bool) -> None:
        """Read, or let the broker wait."""
        set_reading(self._transport, is_reading)

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
        transport.set_write_buffer_limits(high=Limits.unwritten)
        self._client.conversation.broker_connected(self._node_id, is_connected=True)
        for data in self._unsent:
            transport.write(data)
        self._unsent = []

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Give the memory that the broker's data is to be put into."""
        return Upstream._buffer

    def buffer_updated(self, count: int) -> None:
        """Take `count` bytes of the broker, which are in the buffer."""
        self._client.conversation.receive_from_broker(Upstream._buffer[:count], time.monotonic())
        if self._client.unsent():
            # From Python 3.12 on a transport keeps views of what it could not send.
            Upstream._buffer = memoryview(bytearray(_READ_BYTES))

    def pause_writing(self) -> None:
        """The broker does not read."""
        self._client.conversation.broker_reads(is_reading=False)

    def resume_writing(self) -> None:
        """The broker reads again."""
        self._client.conversation.broker_reads(is_reading=True)

    def connection_lost(self, error: Exception | None) -> None:
        """The broker has ended the connection."""
        self._lose(str(error or "the broker has closed the connection"))

    def _lose(self, reason: str) -> None:
        if self._is_open:
            self._is_open = False
            self._client.broker_lost(reason)
