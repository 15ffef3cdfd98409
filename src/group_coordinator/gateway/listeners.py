"""The ports of a gateway, in plain text or with TLS."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from asyncio import sslproto
from functools import partial
from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.seldom import Seldom
from group_coordinator.gateway.errors import GatewayError
from group_coordinator.gateway.parties import Parties, shown_host
from group_coordinator.jobs.hosts import listening_host, written
from group_coordinator.jobs.threads import look_at

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from group_coordinator.gateway.certificates import Certificates
    from group_coordinator.gateway.connection import ClientConnection
    from group_coordinator.gateway.conversation import Conversation
    from group_coordinator.gateway.metrics import GatewayMetrics
    from group_coordinator.gateway.parties import Party
    from group_coordinator.gateway.settings import GatewaySettings

log = logging.getLogger(__name__)

_HANDSHAKE_S = 10.0
# On asyncio's own loop each TLS connection has a buffer of this size from the beginning. Of its 256 KiB ten
# thousand idle ones would mostly consist. With 20 KiB, little more than a record, clients produce a seventh
# less.
sslproto.SSLProtocol.max_size = 24 * 1024
_FILES = 200
"""Files that are open beside those of clients: ports, the coordinator's topics, probes."""
_BACKLOG = 1_024
"""Clients that may wait to be accepted: all of them come back at once after an outage."""
_ACCEPT_AGAIN_S = 1.0


class Listeners:
    """All ports, and all connections that came by them. Those in a TLS handshake count as well."""

    def __init__(
        self, settings: GatewaySettings, certificates: Certificates | None, metrics: GatewayMetrics
    ) -> None:
        self._settings, self._certificates, self._metrics = settings, certificates, metrics
        self._tasks: list[asyncio.Task[None]] = []
        self._handshakes: set[_Handshake] = set()
        self._refused = Seldom()
        self.connections: set[Conversation] = set()
        metrics.connections.set_function(lambda: len(self.connections))
        self.hosts = Parties(
            settings.gateway_max_connections_per_host,
            settings.gateway_max_request_rate,
            settings.gateway_max_connection_creation_rate,
        )

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
        host = listening_host(self._settings.listen.host)
        is_ipv6 = ":" in host
        try:
            bound = socket.create_server(
                (host, port),
                family=socket.AF_INET6 if is_ipv6 else socket.AF_INET,
                backlog=_BACKLOG,
                reuse_port=self._settings.gateway_reuse_port and port != 0,
                # The address of all networks serves IPv4 as well, as at a broker.
                dualstack_ipv6=is_ipv6 and socket.has_dualstack_ipv6(),
            )
        except OSError as error:
            raise GatewayError(
                f"cannot listen on {written(host)}:{port}: {error.strerror}; choose another port with "
                "--listen (each broker has one more: that port + 1 + its node id), or share it with "
                "gateway.reuse.port"
            ) from None
        # All accepted ones have it from this one. asyncio sets it only for sockets that are TCP's by number.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound

    def serve(self, bound: socket.socket, make: Callable[[str], ClientConnection]) -> None:
        """Serve the clients of the port, by connections that `make` makes.

        It is given the name that the client asks for (SNI), or "", and raises `GatewayError` if that is none
        of the gateway's.
        """
        serving = (
            self._serving(bound, make)
            if self._certificates is None
            else self._serving_tls(bound, make, self._certificates)
        )
        self._tasks.append(asyncio.get_running_loop().create_task(serving))
        look_at(self._tasks[-1])

    async def _serving(self, bound: socket.socket, make: Callable[[str], ClientConnection]) -> None:
        # Without its own word for it, asyncio would make the backlog a hundred again.
        server = await asyncio.get_running_loop().create_server(
            lambda: make(""), sock=bound, backlog=_BACKLOG
        )
        async with server:
            await server.serve_forever()

    async def _serving_tls(
        self, bound: socket.socket, make: Callable[[str], ClientConnection], certificates: Certificates
    ) -> None:
        # A server of asyncio's tells nobody of handshakes: how many are under way, and why they fail.
        loop = asyncio.get_running_loop()
        bound.setblocking(False)
        with bound:
            while True:
                try:
                    accepted, (address, *_) = await loop.sock_accept(bound)
                except ConnectionAbortedError:
                    continue
                except OSError as error:
                    # Such as too many open files.
                    log.warning("no client can be accepted: %s", error)
                    await asyncio.sleep(_ACCEPT_AGAIN_S)
                    continue
                if self._refuses(shown_host(address)):
                    self._metrics.connections_closed.labels("too many").inc()
                    accepted.close()
                    continue
                handshake = _Handshake(make, self._shaken)
                handshake.host = self.hosts.enter(shown_host(address), handshake, handshake.heard_s)
                self._handshakes.add(handshake)
                shaking = self._shake(accepted, address, handshake, certificates.context)
                handshake.task = loop.create_task(shaking)
                handshake.task.add_done_callback(partial(self._shaken, handshake))
                # If many come at once, the others are served between two of them.
                await asyncio.sleep(0)

    async def _shake(
        self,
        accepted: socket.socket,
        address: str,
        handshake: _Handshake,
        context: ssl.SSLContext,
    ) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: handshake, accepted, ssl=context, ssl_handshake_timeout=_HANDSHAKE_S
            )
        except OSError as error:
            # Of the network, of TLS, or that the time is over.
            handshake.error = error
        if handshake.error is not None:
            log.info("the TLS handshake of %s fails: %s", address, handshake.error)
            self._metrics.connections_closed.labels("handshake").inc()

    def _shaken(self, handshake: _Handshake, _task: asyncio.Task[None] | None = None) -> None:
        """A handshake is over: its place is free, for the connection that comes of it."""
        self._handshakes.discard(handshake)
        handshake.host.connections.pop(handshake, None)

    def left(self, connection: Conversation, reason: str) -> None:
        """A connection has gone."""
        self.connections.discard(connection)
        self._metrics.connections_closed.labels(reason).inc()

    def close(self) -> None:
        """Accept no more connections."""
        for each in (*self._tasks, *(handshake.task for handshake in self._handshakes)):
            each.cancel()

    def admit(self, connection: Conversation) -> Party | None:
        """Count a connection that was made. Returns the party of its host, or None if there is no room."""
        host = connection.client.host
        if self._certificates is None:
            if self._refuses(host):
                return None
            party = self.hosts.enter(host, connection, time.monotonic())
        else:
            # It was let in when it was accepted, and its handshake has just left its place.
            party = self.hosts.of(host)
            party.connections[connection] = None
        self.connections.add(connection)
        return party

    def _refuses(self, host: str) -> bool:
        """Whether there is no room for one more client of a host."""
        now_s = time.monotonic()
        most = self._settings.gateway_max_connections
        if self.hosts.refuses(host, now_s):
            reason = (
                "their host has as many, or makes as many, as a host may (gateway.max.connections.per.host, "
                "gateway.max.connection.creation.rate)"
            )
        elif len(self.connections) + len(self._handshakes) >= most and not self._makes_room(host, now_s):
            reason = f"there are gateway.max.connections ({most})"
        else:
            return False
        if count := self._refused.happened(now_s):
            log.warning("%s connections are refused, such as one of %s: %s", count, host, reason)
        return True

    def _makes_room(self, host: str, now_s: float) -> bool:
        """Close a quiet connection of the host that has most, if this one has fewer."""
        largest = self.hosts.largest(now_s)
        if largest is None or len(largest.connections) <= len(self.hosts.of(host).connections) + 1:
            return False
        quietest = largest.quietest()
        del largest.connections[quietest]
        if isinstance(quietest, _Handshake):
            self._handshakes.discard(quietest)
            self._metrics.connections_closed.labels("too many").inc()
            quietest.task.cancel()
        else:
            self.connections.discard(quietest)
            quietest.abort("too many")
        return True


class _Handshake(asyncio.Protocol):
    """A client until TLS is agreed on; then the connection that `make` makes takes its place.

    It is a connection of its host until then, or until it fails. `leave` gives the place back.
    """

    is_known = False
    host: Party
    task: asyncio.Task[None]

    def __init__(self, make: Callable[[str], ClientConnection], leave: Callable[[_Handshake], None]) -> None:
        self._make, self._leave = make, leave
        self.heard_s = time.monotonic()
        self.error: Exception | None = ConnectionResetError("the client has gone")
        """Why it fails; None once TLS is agreed on."""

    def connection_made(self, transport: Any) -> None:
        try:
            connection = self._make(getattr(transport.get_extra_info("ssl_object"), "name", ""))
        except GatewayError as error:
            # It asks for nobody here.
            self.error = error
            transport.abort()
            return
        self.error = None
        self._leave(self)
        transport.set_protocol(connection)
        connection.connection_made(transport)
