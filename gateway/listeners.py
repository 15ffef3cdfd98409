"""The ports of a gateway, in plain text or with TLS."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from asyncio import sslproto
from typing import TYPE_CHECKING, Any

from group_coordinator.gateway.errors import GatewayError
from group_coordinator.gateway.limits import Seldom

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.certificates import Certificates
    from group_coordinator.gateway.connection import ClientConnection
    from group_coordinator.gateway.metrics import GatewayMetrics
    from group_coordinator.gateway.settings import GatewaySettings

__all__ = ["Listeners"]

log = logging.getLogger(__name__)

_HANDSHAKE_S = 10.0
# Each TLS connection has a buffer of this size from the beginning. Of asyncio's own 256 KiB ten thousand idle
# ones would mostly consist. Two records fit into this one.
sslproto.SSLProtocol.max_size = 32 * 1024
_FILES = 200
"""Files that are open beside those of clients: ports, the coordinator's topics, probes."""
_BACKLOG = 1_024
"""Clients that may wait to be accepted: all of them come back at once after an outage."""


class Listeners:
    """All ports, and all connections that came by them. Those in a TLS handshake count as well."""

    def __init__(
        self, settings: GatewaySettings, certificates: Certificates | None, metrics: GatewayMetrics
    ) -> None:
        self._settings, self._certificates, self._metrics = settings, certificates, metrics
        self._tasks: list[asyncio.Future[None]] = []
        self._greeted: set[_Handshake] = set()
        self._refused = Seldom()
        self.connections: set[ClientConnection] = set()

    def make_room(self) -> None:
        """Let the process open as many files as its connections may need, or say how many it may."""
        needed = 2 * self._settings.gateway_max_connections + _FILES
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if soft != resource.RLIM_INFINITY and soft < allowed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < needed:
            log.warning(
                "the system allows %s open files, enough for %s of gateway.max.connections (%s): raise its "
                "limit (ulimit -n, LimitNOFILE=), or lower the setting",
                hard,
                max(0, (hard - _FILES) // 2),
                self._settings.gateway_max_connections,
            )

    def bind(self, port: int) -> socket.socket:
        """Bind a port. From now on clients can connect, but the gateway does not serve them yet."""
        host = self._settings.listen.host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server(
                (host, port),
                family=family,
                backlog=_BACKLOG,
                reuse_port=self._settings.gateway_reuse_port and port != 0,
            )
        except OSError as error:
            raise GatewayError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another port with --listen (each "
                f"broker has one more: that port + 1 + its node id), or share it with gateway.reuse.port"
            ) from None

    def serve(self, bound: socket.socket, make: Callable[[str], ClientConnection]) -> None:
        """Serve the clients of the port, by connections that `make` makes.

        It is given the name that the client asks for (SNI), or "", and raises `GatewayError` if that is none
        of the gateway's.
        """

        def enter(name: str = "") -> ClientConnection:
            connection = make(name)
            self.connections.add(connection)
            self._count()
            return connection

        def accept() -> asyncio.BaseProtocol:
            if len(self.connections) + len(self._greeted) >= self._settings.gateway_max_connections:
                return self._refuse()
            if self._certificates is None:
                return enter()
            handshake = _Handshake(self._certificates, enter, self._shaken)
            self._greeted.add(handshake)
            return handshake

        self._tasks.append(asyncio.ensure_future(_serving(accept, bound)))

    def left(self, connection: ClientConnection, reason: str) -> None:
        """A connection has gone."""
        self.connections.discard(connection)
        self._count()
        self._metrics.connections_closed.labels(reason).inc()

    def close(self) -> None:
        """Accept no more connections."""
        for each in self._tasks:
            each.cancel()

    def _count(self) -> None:
        self._metrics.connections.set(len(self.connections))

    def _refuse(self) -> asyncio.Protocol:
        self._metrics.connections_closed.labels("too many").inc()
        if count := self._refused.happened(time.monotonic()):
            log.warning(
                "%s connections are refused: there are gateway.max.connections (%s)",
                count,
                self._settings.gateway_max_connections,
            )
        return _Refused()

    def _shaken(self, handshake: _Handshake, error: Exception | None) -> None:
        self._greeted.discard(handshake)
        if error is not None:
            log.info("the TLS handshake of %s fails: %s", handshake.host, error)
            self._metrics.connections_closed.labels("handshake").inc()


class _Refused(asyncio.Protocol):
    """A client that there is no room for."""

    def connection_made(self, transport: Any) -> None:
        transport.abort()


class _Handshake(asyncio.Protocol):
    """A client until TLS is agreed on; then the connection that `enter` makes takes its place."""

    def __init__(
        self,
        certificates: Certificates,
        enter: Callable[[str], ClientConnection],
        on_end: Callable[[_Handshake, Exception | None], None],
    ) -> None:
        self._certificates, self._enter, self._on_end = certificates, enter, on_end
        self._early: list[bytes] = []
        """Sent by the client right behind its handshake."""
        self._task: asyncio.Task[None] | None = None
        self.host = ""

    def connection_made(self, transport: Any) -> None:
        self.host = (transport.get_extra_info("peername") or ("",))[0]
        self._task = asyncio.get_running_loop().create_task(self._shake(transport))

    def data_received(self, data: bytes) -> None:
        self._early.append(data)

    async def _shake(self, transport: Any) -> None:
        try:
            secured: Any = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._certificates.context,
                server_side=True,
                ssl_handshake_timeout=_HANDSHAKE_S,
            )
            if secured is None or secured.is_closing():
                raise ConnectionResetError("the client has gone")
            connection = self._enter(getattr(secured.get_extra_info("ssl_object"), "name", ""))
        except (OSError, GatewayError) as error:
            # Of the network, of TLS, that the time is over, or that the client asks for nobody here.
            transport.abort()
            self._on_end(self, error)
            return
        self._on_end(self, None)
        secured.set_protocol(connection)
        connection.connection_made(secured)
        for data in self._early:
            connection.data_received(data)


async def _serving(accept: Callable[[], asyncio.BaseProtocol], bound: socket.socket) -> None:
    # Without its own word for it, asyncio would make the backlog a hundred again.
    server = await asyncio.get_running_loop().create_server(accept, sock=bound, backlog=_BACKLOG)
    async with server:
        await server.serve_forever()
