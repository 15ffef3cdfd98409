"""A TCP forwarder that looks at the head of each frame, and does nothing else."""

from __future__ import annotations

import asyncio
import sys
from typing import Any


class _Side(asyncio.Protocol):
    """One side of a connection; `other` is the other one."""

    def __init__(self) -> None:
        self.other: _Side | None = None
        self.transport: Any = None
        self._head = bytearray()
        self._left = 0
        self.unsent: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self.other is not None:
            for data in self.other.unsent:
                transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._walk(data)
        if self.other is None or self.other.transport is None:
            self.unsent.append(data)
        else:
            self.other.transport.write(data)

    def _walk(self, data: bytes) -> None:
        place = 0
        while place < len(data):
            if self._left:
                step = min(self._left, len(data) - place)
                self._left -= step
                place += step
                continue
            step = 8 - len(self._head)
            self._head += data[place : place + step]
            place += step
            if len(self._head) == 8:
                self._left = int.from_bytes(self._head[:4]) - 4
                self._head.clear()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


async def _run(host: str, port: int) -> None:
    loop = asyncio.get_running_loop()

    def accept() -> _Side:
        client, broker = _Side(), _Side()
        client.other, broker.other = broker, client
        tasks.add(loop.create_task(loop.create_connection(lambda: broker, host, port)))
        return client

    tasks: set[asyncio.Task[Any]] = set()
    server = await loop.create_server(accept, "127.0.0.1", 0)
    print(f"clients find the gateway at 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Forward to the host and port on the command line."""
    asyncio.run(_run(sys.argv[1], int(sys.argv[2])))
