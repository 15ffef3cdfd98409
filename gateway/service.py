"""The gateway as a process: ports for clients, one way to the stream, and time."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient
from kafka.structs import TopicPartition

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.gateway.addresses import Address, Addresses, coordinator_of
from group_coordinator.gateway.beats import next_instant
from group_coordinator.gateway.connection import ClientConnection
from group_coordinator.gateway.groups import Groups, ListedGroup
from group_coordinator.gateway.local import Client, Local, Nodes, Origin
from group_coordinator.gateway.security import security_of
from group_coordinator.gateway.stream import Listener, Lookup, Reader, Writer
from group_coordinator.gateway.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from group_coordinator.gateway.codec import Request
    from group_coordinator.gateway.metrics import GatewayHealth, GatewayMetrics
    from group_coordinator.gateway.settings import GatewaySettings

__all__ = ["Gateway", "GatewayError"]

log = logging.getLogger(__name__)

_TICK_S = 0.02
"""How exactly time is kept."""
_LOOK_EVERY_S = 1.0
"""How often connections are looked at that may be idle, and topics that are not there yet."""
_DRAIN_S = 5.0
_BACKLOG = 1_024
"""Clients that may wait to be accepted: all of them come back at once after an outage."""


class GatewayError(Exception):
    """The gateway cannot start; the message is one line and says what to do."""


class Gateway:
    """One process. `kafka_config`: kafka-python's settings, for its own connections to the brokers."""

    def __init__(
        self,
        settings: GatewaySettings,
        kafka_config: Mapping[str, Any],
        metrics: GatewayMetrics,
        health: GatewayHealth,
    ) -> None:
        self.metrics = metrics
        """The counters of the gateway."""
        self._health = health
        self._settings, self._kafka_config = settings, kafka_config
        try:
            self._security = security_of(kafka_config, settings.rights)
        except OSError as error:
            raise GatewayError(
                f"the brokers' TLS cannot be used: {error}; look at the PEM files that the settings name"
            ) from None
        self._instance = secrets.token_hex(6)
        self._groups = Groups(settings.groups_prefix)
        self._topics: Topics | None = None
        self._addresses = Addresses(self._address_of)
        self._brokers: dict[int, Address] = {}
        """The brokers' own addresses, by node id."""
        self._ports: dict[int, int] = {}
        """The port that stands for each broker."""
        self._tasks: list[asyncio.Future[None]] = []
        self._connections: set[ClientConnection] = set()

    async def run(self, say: Callable[[str], None], stopping: asyncio.Event) -> None:
        """Serve until `stopping` is set. Raises `GatewayError`, or a KafkaError if Kafka is out of reach."""
        loop = asyncio.get_running_loop()
        settings = self._settings
        with ExitStack() as stack:
            admin = await loop.run_in_executor(None, self._meet_brokers)
            stack.callback(admin.close)
            partitions = await self._await_topics(admin, say, stopping)
            if stopping.is_set():
                return
            await loop.run_in_executor(None, self._connect, stack, loop, partitions)
            bound = self._bind(settings.port)
            for node_id, own in list(self._brokers.items()):
                self._address_of(node_id, own)
            self._serve(bound, lambda: min(self._brokers))
            self._health.serves(self._local)
            try:
                if not self._security.asks_rights:
                    say("rights are not asked for: whoever reaches the gateway may do anything to any group")
                say(f"clients find the gateway at {settings.advertised_host}:{bound.getsockname()[1]}")
                await self._keep_time(stopping)
                say("stopping")
            finally:
                self._health.stops()
                for each in self._tasks:
                    each.cancel()
                await self._drain()
                await loop.run_in_executor(None, stack.pop_all().close)

    # -- start and stop ------------------------------------------------------------------------------

    def _meet_brokers(self) -> KafkaAdminClient:
        admin = KafkaAdminClient(**self._kafka_config)
        for each in admin.describe_cluster()["brokers"]:
            node_id = each["broker_id"] if "broker_id" in each else each["node_id"]
            self._brokers[node_id] = Address(each["host"], each["port"])
        return admin

    async def _await_topics(
        self, admin: KafkaAdminClient, say: Callable[[str], None], stopping: asyncio.Event
    ) -> dict[str, int]:
        """Wait until the coordinator has made its topics; returns how many partitions each has."""
        settings = self._settings
        topics = [settings.request_topic, *settings.response_topics, settings.groups_topic]
        was_said = False
        while not stopping.is_set():
            self._health.moves()
            described = await asyncio.get_running_loop().run_in_executor(None, admin.describe_topics, topics)
            found = {each["name"]: len(each["partitions"]) for each in described if not each["error_code"]}
            absent = [topic for topic in topics if topic not in found]
            if not absent:
                return found
            if not was_said:
                say(f"waiting for topic {absent[0]}, which the coordinator creates when it starts")
                was_said = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), _LOOK_EVERY_S)
        return {}

    def _connect(
        self, stack: ExitStack, loop: asyncio.AbstractEventLoop, partitions: Mapping[str, int]
    ) -> None:
        """Stand ready to read before anything is written."""
        settings = self._settings
        # The coordinator sees to it that they have equally many.
        partition = secrets.randbelow(min(partitions[topic] for topic in settings.response_topics))
        groups = [
            TopicPartition(settings.groups_topic, each) for each in range(partitions[settings.groups_topic])
        ]
        listener = Listener(self._acknowledged, self._refused, self._responses, self._groups_changed)
        reader = Reader(loop, listener, settings.response_topics, partition, groups, self._kafka_config)
        stack.callback(reader.close)
        writer = Writer(loop, listener, settings.request_topic, self._kafka_config)
        stack.callback(writer.close, _DRAIN_S)
        nodes = Nodes(self._advertised, lambda group_id: coordinator_of(group_id, self._brokers))
        if not settings.commit_unknown_topics:
            lookup = Lookup(loop, self._topics_told, self._kafka_config)
            stack.callback(lookup.close)
            self._topics = Topics(lookup.ask)
        origin = Origin(self._instance, partition, settings.groups_prefix)
        self._local = Local(origin, self._groups, nodes, writer.write, GroupConfig(), self._topics)
        self.metrics.watch(self._local)

    async def _keep_time(self, stopping: asyncio.Event) -> None:
        linger_s = self._settings.beats_linger_ms / 1000
        flush_at, look_at = next_instant(time.time(), linger_s), 0.0
        while not stopping.is_set():
            await asyncio.sleep(_TICK_S)
            now_s = time.monotonic()
            self._health.moves()
            self._local.expire(now_s)
            if now_s >= look_at:
                look_at = now_s + _LOOK_EVERY_S
                for connection in list(self._connections):
                    connection.expire(now_s)
            if time.time() >= flush_at:
                flush_at = next_instant(time.time(), linger_s)
                self._local.flush(now_s)

    async def _drain(self) -> None:
        """Give what waits some time, and end all connections: clients look for another gateway."""
        deadline = time.monotonic() + _DRAIN_S
        self._local.flush(time.monotonic())
        while time.monotonic() < deadline and any(each.is_owed for each in self._connections):
            await asyncio.sleep(_TICK_S)
            self._local.expire(time.monotonic())
        for connection in list(self._connections):
            connection.close("gateway stops")

    # -- ports -------------------------------------------------------------------------------------

    def _bind(self, port: int) -> socket.socket:
        """Have a port. From now on clients can connect, though nobody speaks to them yet."""
        host = self._settings.host
        try:
            return socket.create_server((host, port), family=_family(host), backlog=_BACKLOG)
        except OSError as error:
            raise GatewayError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another port with --listen (each "
                f"broker has one more: that port + 1 + its node id)"
            ) from None

    def _serve(self, bound: socket.socket, node_id: Callable[[], int]) -> None:
        """Speak to those who connect to the port, as the broker `node_id`."""

        def accept() -> ClientConnection:
            node = node_id()
            connection = ClientConnection(self, node, self._brokers[node], self._security)
            self._connections.add(connection)
            self.metrics.connections.set(len(self._connections))
            return connection

        self._tasks.append(asyncio.ensure_future(_serving(accept, bound)))

    def _address_of(self, node_id: int, own: Address) -> Address | None:
        """The gateway's address for a broker that is at `own`; None if no port can be had for it."""
        if self._brokers.get(node_id) != own:
            log.info("broker %s is at %s:%s", node_id, *own)
            self._brokers[node_id] = own
        if node_id not in self._ports:
            try:
                bound = self._bind(self._settings.node_port(node_id))
            except GatewayError as error:
                log.error("broker %s is not offered: %s", node_id, error)  # noqa: TRY400 - it is one line
                return None
            self._ports[node_id] = bound.getsockname()[1]
            self._serve(bound, lambda: node_id)
        return Address(self._settings.advertised_host, self._ports[node_id])

    def _advertised(self) -> dict[int, Address]:
        host = self._settings.advertised_host
        return {node_id: Address(host, port) for node_id, port in self._ports.items()}

    # -- what connections need (`Services`) ----------------------------------------------------------

    def answer(self, request: Request, client: Client, reply: Callable[[Any], None]) -> None:
        """Answer a local request; `reply` is called once, with Kafka's response."""
        self._local.answer(request, client, time.monotonic(), reply)

    def rewrite(self, message: Any) -> None:
        """Replace the addresses in a broker's response."""
        self._addresses.rewrite(message)

    def closed(self, connection: ClientConnection, reason: str) -> None:
        """A connection has gone."""
        self._local.gone(connection.client)
        self._connections.discard(connection)
        self.metrics.connections.set(len(self._connections))
        self.metrics.connections_closed.labels(reason).inc()

    # -- what the log tells (`Listener`) ---------------------------------------------------------------

    def _acknowledged(self, request_ids: Sequence[str]) -> None:
        self._local.acknowledged(request_ids, time.monotonic())

    def _refused(self, request_ids: Sequence[str]) -> None:
        self._local.refused(request_ids)

    def _responses(self, responses: Sequence[Any]) -> None:
        self._local.take(responses, time.monotonic())

    def _topics_told(self, counts: Mapping[str, int]) -> None:
        if self._topics is not None:
            self._topics.told(counts, time.monotonic())

    def _groups_changed(
        self,
        groups: Sequence[tuple[str, ListedGroup | None]],
        is_ready: bool,  # noqa: FBT001 - as the listener has it
    ) -> None:
        for group_id, group in groups:
            self._groups.put(group_id, group)
        self._groups.is_ready = self._groups.is_ready or is_ready


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


async def _serving(accept: Callable[[], ClientConnection], bound: socket.socket) -> None:
    server = await asyncio.get_running_loop().create_server(accept, sock=bound)
    async with server:
        await server.serve_forever()
