"""A small HTTP server inside a process, for metrics, probes and the page."""

from __future__ import annotations

import io
import socket
import threading
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from group_coordinator.jobs.hosts import listening_host
from group_coordinator.jobs.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication

__all__ = ["CannotListenError", "serve_app"]


class CannotListenError(SettingsError):
    """A port cannot be had; the message is one line and says what to do."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without asking a name server what this machine is called, which may take long.

        HTTPServer's own method asks one after it has called this one of its base. This one sets SO_REUSEADDR:
        the next process can have the port although connections of this process are still in TIME_WAIT.
        """
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        """Serve IPv4 as well if the address is that of all networks, even where that is not the default."""
        if socket.has_dualstack_ipv6():
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Writer(io.BufferedIOBase):
    """Writes to a client. One that takes nothing for so long is gone, which wsgiref tells from a fault."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        try:
            self._connection.sendall(data)
        except TimeoutError:
            raise BrokenPipeError("the client takes nothing") from None
        return memoryview(data).nbytes


class _Handler(WSGIRequestHandler):
    timeout = 10
    """Seconds for which somebody may be connected and say nothing, or take nothing."""

    def setup(self) -> None:
        """Prepare to answer."""
        super().setup()
        self.wfile = _Writer(self.connection)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing, because a probe asks every few seconds."""


def serve_app(host: str, port: int, app: WSGIApplication, name: str) -> tuple[int, Callable[[], None]]:
    """Serve `app` in a thread called `name`; each request has one of its own.

    `host`: an address or name of this machine, or empty for all of them, IPv4 and IPv6. `port` 0 is any free
    one. Returns the port, and a function that ends it. Raises OSError if the port cannot be had.
    """
    host = listening_host(host)
    server = make_server(host, port, app, _Server6 if ":" in host else _Server, _Handler)
    thread = threading.Thread(target=server.serve_forever, name=name, daemon=True)
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, close
