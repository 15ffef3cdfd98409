"""A small HTTP server inside a process, for metrics, probes and the page.

Each request has a thread, and there are only so many places for them. A client that keeps a place waiting,
because it sends its request slowly or takes its answer slowly, has to go in time. It goes at once if somebody
else wants the place. So a client that is not slow is always served, such as a probe.
"""

from __future__ import annotations

import io
import logging
import resource
import socket
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import LineTooLong
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from group_coordinator.jobs.hosts import listening_host
from group_coordinator.jobs.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication

log = logging.getLogger(__name__)

PLACES = 48
"""Requests at once, besides those that last. A probe and two Prometheus servers need three."""
_PART_OF_FILES = 4
"""A server has one in so many of the files that the process may open."""
_WAIT_S = 10.0
"""The longest time, in s, until the head of a request is whole, or the client has taken a part of its answer.
"""
_GONE_S = 1.0
"""A thread whose connection is shut down ends sooner than that."""
_LARGEST_HEAD = 64 * 1024
_BACKLOG = 128
"""Connections that the operating system keeps until they have a place."""
_FULL = b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class CannotListenError(SettingsError):
    """A port cannot be had; the message is one line and says what to do."""


class _Places:
    """The connections that have a place, and which of them keep it waiting. Several threads use it."""

    def __init__(self, most: int) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files != resource.RLIM_INFINITY:
            most = min(most, max(files // _PART_OF_FILES, 1))
        self._free = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, float] = {}
        """Since when, in s of the monotonic clock; the longest wait first."""

    def take(self, connection: socket.socket) -> bool:
        """Give it a place, if need be that of the slowest client; return whether there was one."""
        if not self._free.acquire(blocking=False):
            with self._lock:
                longest = next(iter(self._waiting), None)
                if longest is None:
                    return False
                self._cut(longest)
            if not self._free.acquire(timeout=_GONE_S):
                return False
        self.waits(connection)
        return True

    def leave(self, connection: socket.socket) -> None:
        """Take in that its thread ends."""
        self.goes_on(connection)
        self._free.release()

    def waits(self, connection: socket.socket) -> None:
        """Take in that its thread waits for the client from now on."""
        with self._lock:
            self._waiting[connection] = time.monotonic()

    def goes_on(self, connection: socket.socket) -> None:
        """Take in that it does no longer."""
        with self._lock:
            self._waiting.pop(connection, None)

    def cut_slow(self) -> None:
        """Shut down what has waited for its client for too long."""
        with self._lock:
            for connection, since_s in list(self._waiting.items()):
                if time.monotonic() - since_s > _WAIT_S:
                    self._cut(connection)

    def _cut(self, connection: socket.socket) -> None:
        del self._waiting[connection]
        # A client that has gone itself needs no word.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = _BACKLOG
    app: WSGIApplication
    places: _Places

    def server_bind(self) -> None:
        """Bind without asking a name server what this machine is called, which may take long.

        HTTPServer's own method asks one after it has called this one of its base. This one sets SO_REUSEADDR:
        the next process can have the port although connections of this process are still in TIME_WAIT.
        """
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Without a file for it, wait a moment: it stays at the door meanwhile."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(0.1)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Have a thread answer, if there is a place for one more."""
        if self.places.take(request):
            try:
                super().process_request(request, client_address)
            except BaseException:
                self.places.leave(request)
                raise
            return
        with suppress(OSError):
            request.setblocking(False)
            request.send(_FULL)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, in a thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.leave(request)

    def service_actions(self) -> None:
        """Look for slow clients, twice a second."""
        self.places.cut_slow()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the library's
        """Log what nobody expected. The server goes on."""
        log.error("answering over HTTP failed", exc_info=sys.exc_info())


class _Server6(_Server):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        """Serve IPv4 as well if the address is that of all networks, even where that is not the default."""
        if socket.has_dualstack_ipv6():
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Head:
    """Reads the lines of a request's head, which have a bound together. A body is not read."""

    closed = False

    def __init__(self, lines: io.BufferedIOBase) -> None:
        self._lines = lines
        self._left = _LARGEST_HEAD

    def readline(self, _most: int) -> bytes:
        """Read a line. Raises `LineTooLong`, and `ConnectionError` if the client ends in its middle."""
        line = self._lines.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("head")
        if not line.endswith(b"\n"):
            raise ConnectionAbortedError("the client has gone, or was too slow")
        return line

    def close(self) -> None:
        self._lines.close()


class _Writer(io.BufferedIOBase):
    """Writes to a client. One that takes nothing for so long is gone, which wsgiref tells from a fault."""

    def __init__(self, connection: socket.socket, places: _Places) -> None:
        self._connection, self._places = connection, places

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._places.waits(self._connection)
        try:
            self._connection.sendall(data)
        finally:
            self._places.goes_on(self._connection)
        return memoryview(data).nbytes


class _Answer(ServerHandler):
    def log_exception(self, exc_info: Any) -> None:
        """Log a fault of the application. The client gets 500."""
        log.error("answering over HTTP failed", exc_info=exc_info)


class _Handler(WSGIRequestHandler):
    server: _Server

    def setup(self) -> None:
        """Prepare to answer."""
        super().setup()
        self.rfile: Any = _Head(self.rfile)
        self.wfile: Any = _Writer(self.connection, self.server.places)

    def handle(self) -> None:
        """Answer one request. A client that is slow, or gone, gets no answer, and no line in the log."""
        with suppress(ConnectionError):
            try:
                self.raw_requestline = self.rfile.readline(_LARGEST_HEAD)
            except LineTooLong:
                self.requestline = self.request_version = self.command = ""
                self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
                return
            # It answers a head that is wrong, or too large.
            if self.parse_request():
                self.server.places.goes_on(self.connection)
                answer = _Answer(io.BytesIO(), self.wfile, io.StringIO(), self.get_environ())
                answer.request_handler = self  # type: ignore[attr-defined] # as the library's own does
                answer.run(self.server.app)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing, because a probe asks every few seconds."""


def serve_app(
    host: str, port: int, app: WSGIApplication, name: str, places: int = PLACES
) -> tuple[int, Callable[[], None]]:
    """Serve `app` in a thread called `name`; each request has one of its own, `places` of them at most.

    `host`: an address or name of this machine, or empty for all of them, IPv4 and IPv6. `port` 0 is any free
    one. Returns the port, and a function that ends it. Raises OSError if the port cannot be had.
    """
    host = listening_host(host)
    server = (_Server6 if ":" in host else _Server)((host, port), _Handler)
    server.app, server.places = app, _Places(places)
    thread = threading.Thread(target=server.serve_forever, name=name, daemon=True)
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, close
