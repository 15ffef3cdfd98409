"""A client's own connection to a broker, which answers what the gateway passes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import RESPONSE_HEAD_BYTES, Frames
from group_coordinator.gateway.limits import Limits
from group_coordinator.gateway.transports import set_reading

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from group_coordinator.gateway.slots import Slots

__all__ = ["Serving", "Upstream"]

Serving = Sequence[tuple[int, tuple[str, int]]]
"""Brokers that can serve a client, by node id and address. It is served by the first that can be reached."""

_READ_BYTES = 256 * 1024
"""Most that is read at once. Each read and each write costs more than what is done between them."""


class Upstream(asyncio.BufferedProtocol):
    """A client's own connection to a broker.

    `on_read`: something has come. Returns whether it was sent on at once, so that its memory is free again.
    """

    _buffer = memoryview(bytearray(_READ_BYTES))
    """All connections share it. It is filled and emptied without a pause between.

    asyncio fills it in parts where TLS has several records. A part of a bytearray would be a copy.
    """

    def __init__(
        self,
        slots: Slots,
        on_read: Callable[[FrameError | None], bool],
        on_lost: Callable[[str], None],
        on_pressure: Callable[[], None],
        on_connect: Callable[[int, bool], None],
    ) -> None:
        self._slots = slots
        self._frames = Frames(RESPONSE_HEAD_BYTES, self._begin)
        self._on_read, self._on_lost, self._on_pressure = on_read, on_lost, on_pressure
        self._on_connect = on_connect
        self._transport: Any = None
        self._node_id = -1
        """The broker that it connects to, or is connected to."""
        self._unsent: list[bytes | memoryview] = []
        """Data that waits for the connection."""
        self._is_open = True
        self.is_writable = False
        self._is_read = True
        self.heard_s = time.monotonic()
        """When the broker last sent something."""
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
                self._on_connect(node_id, False)
            else:
                return
        self._lose("; ".join(failures) or "the broker that has served it is away")

    def write(self, data: bytes | memoryview) -> None:
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

    def set_reading(self, is_reading: bool) -> None:  # noqa: FBT001 - a switch
        """Read, or let the broker wait."""
        if is_reading is not self._is_read and self._transport is not None:
            self._is_read = is_reading
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
        self._on_connect(self._node_id, True)
        transport.set_write_buffer_limits(high=Limits.unwritten)
        for data in self._unsent:
            transport.write(data)
        self._unsent = []
        self.is_writable = True
        self._on_pressure()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Give the memory that the broker's data is to be put into."""
        return Upstream._buffer

    def buffer_updated(self, count: int) -> None:
        """Take `count` bytes of the broker, which are in the buffer."""
        self.heard_s = time.monotonic()
        failure = None
        try:
            for piece in self._frames.receive(Upstream._buffer[:count]):
                self._slots.upstream_piece(piece)
        except FrameError as error:
            failure = error
        is_free = self._on_read(failure)
        self._slots.keep()
        if not is_free:
            # From Python 3.12 on a transport keeps views of what it could not send.
            Upstream._buffer = memoryview(bytearray(_READ_BYTES))

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
