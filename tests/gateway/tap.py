"""A forwarder that keeps what a client and a broker say to each other, and the files that this is kept in."""

from __future__ import annotations

import base64
import json
import socket
import socketserver
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from group_coordinator.gateway import codec
from group_coordinator.gateway.addresses import rewrite_api_versions, unsupported_api_versions
from group_coordinator.gateway.apis import APIS
from group_coordinator.gateway.frames import LENGTH_BYTES, REQUEST_HEAD_BYTES, RequestHead, read_request_head
from tests.gateway.messages import VERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FOLDER", "Exchange", "Tap", "read_exchanges", "write_exchanges"]

FOLDER = Path(__file__).with_name("recorded")
_HEARTBEAT = 12
_API_VERSIONS = 18
_LONGEST = 2_000
"""Bytes of a frame that is worth a place in a file."""


class Exchange(NamedTuple):
    """A request and its response, each a frame with its length."""

    client: str
    api_key: int
    version: int
    request: bytes
    response: bytes

    @property
    def name(self) -> str:
        return f"{self.client} {APIS[self.api_key].name} {self.version}"


def read_exchanges() -> list[Exchange]:
    """All that is kept, in the order of the files."""
    found = []
    for file in sorted(FOLDER.glob("*.jsonl")):
        for line in map(json.loads, file.read_text(encoding="ascii").splitlines()):
            frames = (base64.b64decode(line[which]) for which in ("request", "response"))
            found.append(Exchange(file.stem, line["api_key"], line["version"], *frames))
    return found


def write_exchanges(client: str, exchanges: list[Exchange]) -> None:
    """Keep one exchange of each API and version, the longest: it has the most fields that are not empty."""
    longest: dict[tuple[int, int], Exchange] = {}
    for each in exchanges:
        kept = longest.get((each.api_key, each.version))
        if kept is None or _size(each) > _size(kept):
            longest[each.api_key, each.version] = each
    lines = [
        json.dumps(
            {
                "api_key": key,
                "version": version,
                "request": base64.b64encode(each.request).decode(),
                "response": base64.b64encode(each.response).decode(),
            }
        )
        for (key, version), each in sorted(longest.items())
    ]
    (FOLDER / f"{client}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def _size(exchange: Exchange) -> int:
    return len(exchange.request) + len(exchange.response)


class Tap:
    """Forwards to `broker`, and keeps the exchanges of the APIs that the gateway reads.

    Clients are offered the versions that the gateway offers.
    """

    def __init__(self) -> None:
        self.broker: tuple[str, int] | None = None
        self.exchanges: list[Exchange] = []
        self.client = ""
        """The client that is running now."""
        tap = self

        class Connection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                tap._serve(self.request)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self._server.daemon_threads = True
        self.address = f"localhost:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def has_heartbeats(self) -> bool:
        """Whether the client that is running now has sent one, and has been answered."""
        return any(each.api_key == _HEARTBEAT for each in self.exchanges)

    def _serve(self, client: socket.socket) -> None:
        asked: dict[int, bytes] = {}
        assert self.broker is not None
        # Either end may close or reset its connection at any time, and a client that is killed does.
        with suppress(OSError), socket.create_connection(self.broker) as broker:
            threading.Thread(target=self._answer, args=(client, broker, asked), daemon=True).start()
            for frame in _frames(client):
                head = _head(frame)
                if head.api_key == _API_VERSIONS and not APIS[_API_VERSIONS].offers(head.api_version):
                    client.sendall(codec.encode_response(unsupported_api_versions(), head.correlation_id))
                    continue
                asked[head.correlation_id] = frame
                broker.sendall(frame)

    def _answer(self, client: socket.socket, broker: socket.socket, asked: dict[int, bytes]) -> None:
        with suppress(OSError):
            for frame in _frames(broker):
                request = asked.pop(int.from_bytes(frame[LENGTH_BYTES : LENGTH_BYTES + 4], signed=True))
                client.sendall(self._kept(request, frame))
            client.shutdown(socket.SHUT_RDWR)

    def _kept(self, request: bytes, response: bytes) -> bytes:
        """Keep an exchange, and return the response that the client is given."""
        key, version, correlation_id = _head(request)
        is_short = max(len(request), len(response)) <= _LONGEST
        if (key, 0, version) in VERSIONS and is_short:
            self.exchanges.append(Exchange(self.client, key, version, request, response))
        if key != _API_VERSIONS:
            return response
        message: Any = codec.decode_response(key, version, response)
        rewrite_api_versions(message)
        return codec.encode_response(message, correlation_id)


def _head(request: bytes) -> RequestHead:
    return read_request_head(request[LENGTH_BYTES : LENGTH_BYTES + REQUEST_HEAD_BYTES])


def _frames(connection: socket.socket) -> Iterator[bytes]:
    """The frames that come, until the other end closes."""
    with connection.makefile("rb") as stream:
        while length := stream.read(LENGTH_BYTES):
            yield length + stream.read(int.from_bytes(length))
