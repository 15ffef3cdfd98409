"""The endpoints at which clients find the brokers, and the broker that a connection stands for.

Each broker has a port of its own, or a name of its own on the one port (SNI). This is the only module that
knows which of the two it is.
"""

from __future__ import annotations

import logging
import secrets
import time
from typing import TYPE_CHECKING

from group_coordinator.gateway.addresses import Address, Serving
from group_coordinator.gateway.errors import GatewayError
from group_coordinator.gateway.names import BOOTSTRAP

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.brokers import Brokers
    from group_coordinator.gateway.connection import ClientConnection
    from group_coordinator.gateway.listeners import Listeners
    from group_coordinator.gateway.settings import GatewaySettings

log = logging.getLogger(__name__)


class Endpoints:
    """The gateway's address for each of `brokers`.

    `connect` makes the connection of a client at the endpoint of the broker with this node id. It is also
    given a function that tells which brokers can serve the client. `on_stranger` is called when a broker is
    named that is not known, or not there.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        brokers: Brokers,
        listeners: Listeners,
        connect: Callable[[int, Callable[[], Serving]], ClientConnection],
        on_stranger: Callable[[], None],
    ) -> None:
        self._settings, self._brokers, self._listeners = settings, brokers, listeners
        self._connect, self._on_stranger = connect, on_stranger
        self._names = settings.names
        self._bootstrap = self._told(settings.listen.port)
        self.addresses: dict[int, Address] = {}
        """The gateway's address for each broker that has one, by node id."""

    def open(self) -> Address:
        """Let clients in. Returns the bootstrap address that they use. Raises `GatewayError`."""
        bound = self._listeners.bind(self._settings.listen.port)
        self._bootstrap = self._told(bound.getsockname()[1])
        self.settle()
        if not self.addresses:
            bound.close()
            raise GatewayError(
                "no broker has a port: raise gateway.node.ports, or choose other ports with --listen"
            )
        self._listeners.serve(bound, self._enter_by_name)
        return self._bootstrap

    def settle(self) -> None:
        """See to it that each broker has an endpoint, also those that had none, which may be free now."""
        for node_id in self._brokers.present:
            if node_id not in self.addresses:
                self._offer(node_id)

    def address_of(self, node_id: int, own: Address) -> Address | None:
        """Return the gateway's address for a broker, which an answer to a client names at `own`.

        None if there is none, or none yet: answers to clients change nothing that is known of the brokers.
        """
        if not self._brokers.is_at(node_id, own):
            self._on_stranger()
        return self.addresses.get(node_id)

    def _offer(self, node_id: int) -> None:
        try:
            self.addresses[node_id] = self._make(node_id)
        except GatewayError as error:
            log.error("broker %s is not offered: %s", node_id, error)  # noqa: TRY400 - it is one line
        self._brokers.offer(node_id, time.monotonic(), is_offered=node_id in self.addresses)

    def _make(self, node_id: int) -> Address:
        if self._names is not None:
            return self._bootstrap._replace(host=self._names.of(node_id))
        port = self._settings.node_port(node_id)
        if port is None:
            raise GatewayError(
                f"its port would be beyond the {self._settings.gateway_node_ports} of gateway.node.ports"
            )
        bound = self._listeners.bind(port)
        self._listeners.serve(bound, lambda _name: self._enter(node_id))
        return self._told(bound.getsockname()[1])

    def _told(self, port: int) -> Address:
        return Address(self._settings.told_host, self._settings.told_port(port))

    def _enter_by_name(self, name: str) -> ClientConnection:
        """Let a client in at the bootstrap port. Raises `GatewayError`."""
        node_id = BOOTSTRAP if self._names is None else self._names.stands_for(name)
        if node_id == BOOTSTRAP:
            chosen = secrets.choice(self._brokers.reachable or self._brokers.present)
            return self._connect(chosen, lambda: self._anywhere(chosen))
        asked = repr(name) if name else "no name (SNI)"
        if node_id is None:
            raise GatewayError(
                f"it asks for {asked}, and not for gateway.advertised.host or a name of "
                "gateway.advertised.nodes"
            )
        if not self._brokers.knows(node_id):
            raise GatewayError(f"it asks for {asked}, and there is no broker {node_id}")
        return self._enter(node_id)

    def _enter(self, node_id: int) -> ClientConnection:
        return self._connect(node_id, lambda: [(node_id, self._brokers.address(node_id))])

    def _anywhere(self, first: int) -> Serving:
        """All brokers that can be reached, this one first.

        A client has one bootstrap address here, where it may have one for each broker of Kafka's.
        """
        reachable = self._brokers.reachable or self._brokers.present
        ordered = sorted(reachable, key=lambda each: each != first)
        return [(each, self._brokers.address(each)) for each in ordered]
