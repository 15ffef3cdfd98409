"""A longer way to an S3 server: each call waits before the server hears of it, and is counted."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from typing import Self

_CALL = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")
_CHUNK = 1 << 18


class SlowStore:
    """Forwards to `port` of this machine, from a port of its own, while the context is open.

    Each call takes `delay_ms` longer. `calls` counts them by method, and a GET of a list as LIST.
    HTTP without TLS; S3's clients send no call on a connection before the one before is answered.
    """

    def __init__(self, port: int, delay_ms: float) -> None:
        self._port, self._delay_s = port, delay_ms / 1000
        self.calls: Counter[str] = Counter()
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Self:
        self._thread.start()
        self._listening.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_CHUNK)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stopping.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        to_server: asyncio.StreamWriter | None = None
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self._port, limit=_CHUNK)
            back = asyncio.ensure_future(_copy(server, to_client))
            while data := await client.read(_CHUNK):
                if call := _CALL.match(data):
                    self.calls[_kind(call[1].decode(), call[2].decode())] += 1
                    await asyncio.sleep(self._delay_s)
                to_server.write(data)
                await to_server.drain()
            to_server.write_eof()
            await back
        except OSError:
            return  # one side has gone; the other one learns of it
        finally:
            to_client.close()
            if to_server is not None:
                to_server.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK):
        target.write(data)
        await target.drain()
    target.close()


def _kind(method: str, path: str) -> str:
    return "LIST" if method == "GET" and "list-type=" in path else method
