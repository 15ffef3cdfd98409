"""The gateway as a process: ports for clients, one way to the stream, and time."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import defaultdict
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.seldom import Seldom
from group_coordinator.gateway.addresses import Address
from group_coordinator.gateway.beats import Instants
from group_coordinator.gateway.brokers import Brokers
from group_coordinator.gateway.certificates import Certificates, foreign_names_ignored
from group_coordinator.gateway.client import Client
from group_coordinator.gateway.connection import ClientConnection
from group_coordinator.gateway.endpoints import Endpoints
from group_coordinator.gateway.errors import GatewayError
from group_coordinator.gateway.groups import Groups, ListedGroup
from group_coordinator.gateway.keeper import GuardKeeper
from group_coordinator.gateway.limits import Budget, Pending, largest, longest
from group_coordinator.gateway.listeners import Listeners
from group_coordinator.gateway.local import Local, Nodes, Origin
from group_coordinator.gateway.matching import Matching
from group_coordinator.gateway.parties import Parties
from group_coordinator.gateway.patterns import Patterns
from group_coordinator.gateway.renewals import Renewals
from group_coordinator.gateway.rules import Rules
from group_coordinator.gateway.security import security_of
from group_coordinator.gateway.sides import Sides
from group_coordinator.gateway.sides_file import BROKERS_GROUPS, SidesFile
from group_coordinator.gateway.stream import Listener, Lookup, Reader, SidesReader, Writer
from group_coordinator.gateway.topics import Topics
from group_coordinator.gateway.turns import Turns
from group_coordinator.jobs.connection import UnreachableError, connected_admin
from group_coordinator.jobs.hosts import written
from group_coordinator.jobs.threads import look_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafka import KafkaAdminClient

    from group_coordinator.coordinator_state.offsets.still_there import Found
    from group_coordinator.coordinator_state.sides import SideRecord
    from group_coordinator.gateway.beat_kinds import Beat
    from group_coordinator.gateway.conversation import Conversation
    from group_coordinator.gateway.frames import Request
    from group_coordinator.gateway.health import GatewayHealth
    from group_coordinator.gateway.metrics import GatewayMetrics
    from group_coordinator.gateway.parties import Party
    from group_coordinator.gateway.settings import GatewaySettings
    from group_coordinator.jobs.topic_patterns import Matched

log = logging.getLogger(__name__)

_TICK_S = 0.02
"""How exactly time is kept."""
_PREPARE_S = 0.02
"""How long before they are sent the records of heartbeats are made."""
_HURRY_S = 0.1
"""The longest time that a heartbeat waits for others while it is in a hurry."""
_LOOK_EVERY_S = 1.0
"""How often the gateway looks for topics that are not there yet, and at files that may be renewed."""
_EXPIRE_EVERY_S = 5.0
"""How often it looks for connections that are idle. While it reads no client it does so at each look."""
_REFRESH_EVERY_S = 20.0
"""How often the brokers are asked which brokers there are."""
_REFRESH_LEAST_S = 1.0
"""How often at most, when answers to clients name brokers that are not known."""
_DRAIN_S = 5.0
_DENIED = Errors.TOPIC_AUTHORIZATION_FAILED


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
            self._security = security_of(
                kafka_config,
                settings.gateway_rights,
                settings.gateway_groups_prefix,
                settings.all_topics,
            )
        except OSError as error:
            raise GatewayError(
                f"the brokers' TLS cannot be used: {error}; look at the PEM files that the settings name"
            ) from None
        self._instance = secrets.token_hex(6)
        self.sides = Sides(settings.gateway_groups_brokers)
        """The side that each group is on."""
        file = settings.files.get(BROKERS_GROUPS)
        self._sides_file = None if file is None else SidesFile(file, self.sides)
        self._groups = Groups(settings.gateway_groups_prefix, self.sides.at_brokers)
        self._rules = Rules(settings.group, settings.gateway_groups_prefix, settings.max_groups)
        self._topics: Topics | None = None
        self._patterns = Patterns(lambda patterns: self._matching.ask(patterns))  # noqa: PLW0108 - not there yet
        self._renewals = Renewals(self._patterns)
        self._expire_at_s = 0.0
        self._brokers = Brokers()
        self._certificates = Certificates(settings) if settings.gateway_tls_certificate else None
        self._listeners = Listeners(settings, self._certificates, metrics)
        self._strangers = asyncio.Event()
        """An answer to a client has named a broker that is not known."""
        self._endpoints = Endpoints(
            settings,
            self._brokers,
            self._listeners,
            lambda node_id, serving: ClientConnection(self, node_id, serving, self._security),
            self._strangers.set,
        )
        self.unfinished: Budget = Budget(
            "unfinished requests",
            "gateway.max.unfinished.bytes",
            settings.gateway_max_unfinished_bytes,
            longest,
        )
        """Bytes of requests that are kept until they are whole."""
        self.unread: Budget = Budget(
            "unread responses", "gateway.max.unread.bytes", settings.gateway_max_unread_bytes, largest
        )
        """Bytes that clients and brokers have not read."""
        self.pending = Pending(
            settings.gateway_max_waiting, settings.gateway_max_waiting_bytes, self._stopped
        )
        """Local requests without an answer."""
        self.turns = Turns(lambda function: asyncio.get_running_loop().call_soon(function), time.monotonic)
        """The event loop's time."""
        self._users = Parties(
            settings.gateway_max_connections_per_principal, settings.gateway_max_request_rate
        )
        self._said: defaultdict[str, Seldom] = defaultdict(Seldom)
        """Lines about things that clients may cause again and again, by kind."""

    async def run(self, say: Callable[[str], None], stopping: asyncio.Event) -> None:
        """Serve until `stopping` is set. Raises `GatewayError`, or a KafkaError if Kafka is out of reach."""
        loop = asyncio.get_running_loop()
        with foreign_names_ignored(), ExitStack() as stack:
            admin = await loop.run_in_executor(None, self._meet_brokers)
            stack.callback(admin.close)
            partitions = await self._await_topics(admin, say, stopping)
            if stopping.is_set():
                return
            await loop.run_in_executor(None, self._stand_ready, stack, loop, partitions)
            self._listeners.make_room()
            host, port = self._endpoints.open()
            refreshing = loop.create_task(self._keep_brokers(admin))
            look_at(refreshing)
            self._health.serves(self._local)
            try:
                if not self._security.asks_rights:
                    say("rights are not checked: any client may do anything to any group")
                if self._settings.takes_everyone:
                    say("brokers take all clients for the gateway itself (gateway.allow.everyone)")
                if self._settings.takes_plaintext_passwords:
                    say("clients send their passwords in plain text: set gateway.tls.certificate for TLS")
                say(f"clients find the gateway at {written(host)}:{port}")
                await self._keep_time(stopping)
                say("the gateway is stopping")
            finally:
                self._health.stops()
                refreshing.cancel()
                self._listeners.close()
                await self._drain()
                await loop.run_in_executor(None, stack.pop_all().close)

    # -- start and stop ------------------------------------------------------------------------------

    def _meet_brokers(self) -> KafkaAdminClient:
        try:
            admin = connected_admin(self._kafka_config)
        except UnreachableError as error:
            servers = self._settings.bootstrap_servers
            raise GatewayError(f"cannot reach Kafka at {servers}: {error}") from None
        self._brokers.replace(_read_brokers(admin), time.monotonic())
        return admin

    async def _keep_brokers(self, admin: KafkaAdminClient) -> None:
        """Ask again and again which brokers there are, and at once if an answer to a client names others."""
        while True:
            await asyncio.sleep(_REFRESH_LEAST_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._strangers.wait(), _REFRESH_EVERY_S - _REFRESH_LEAST_S)
            self._strangers.clear()
            try:
                found = await asyncio.get_running_loop().run_in_executor(None, _read_brokers, admin)
            except KafkaError as error:
                log.warning("the brokers cannot be asked for each other, trying again: %s", error)
                continue
            for node_id, own in found.items():
                if not self._brokers.is_at(node_id, own):
                    log.info("broker %s is at %s:%s", node_id, *own)
            self._brokers.replace(found, time.monotonic())
            self._endpoints.settle()

    async def _await_topics(
        self, admin: KafkaAdminClient, say: Callable[[str], None], stopping: asyncio.Event
    ) -> dict[str, int]:
        """Wait until the coordinator's topics are there, to be seen; returns how many partitions each has."""
        settings = self._settings
        topics = [settings.topics_requests, *settings.response_topics, settings.topics_groups]
        said: tuple[str, bool] | None = None
        while not stopping.is_set():
            self._health.moves()
            described = await asyncio.get_running_loop().run_in_executor(None, admin.describe_topics, topics)
            found = {each["name"]: len(each["partitions"]) for each in described if not each["error_code"]}
            absent = [topic for topic in topics if topic not in found]
            if not absent:
                return found
            unseen = [each["name"] for each in described if each["error_code"] == _DENIED]
            topic, is_unseen = missing = absent[0], absent[0] in unseen
            if missing != said and is_unseen:
                say(f"waiting for a right on topic {topic}, which the user of the gateway may not see")
            elif missing != said:
                say(f"waiting for topic {topic}, which the coordinator creates when it starts")
            said = missing
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), _LOOK_EVERY_S)
        return {}

    def _stand_ready(
        self, stack: ExitStack, loop: asyncio.AbstractEventLoop, partitions: Mapping[str, int]
    ) -> None:
        """Stand ready to read before anything is written."""
        settings = self._settings
        # The coordinator sees to it that they have equally many.
        partition = secrets.randbelow(min(partitions[topic] for topic in settings.response_topics))
        groups = [
            TopicPartition(settings.topics_groups, each) for each in range(partitions[settings.topics_groups])
        ]
        listener = Listener(
            self._acknowledged,
            self._refused,
            self._responses,
            self._groups_changed,
            self._health.unreadable,
        )
        reader = Reader(loop, listener, settings.response_topics, partition, groups, self._kafka_config)
        stack.callback(reader.close)
        writer = Writer(loop, listener, settings.topics_requests, self._kafka_config)
        stack.callback(writer.close, _DRAIN_S)
        if self.sides.are_two:
            sides = SidesReader(loop, self._moved, settings.topics_sides, self._kafka_config)
            stack.callback(sides.close)
            self.sides.take(sides.first)
        if settings.gateway_guard:
            keeper = GuardKeeper(
                self._is_guarded, lambda it: self.metrics.guards.labels(it).inc(), self._kafka_config
            )
            stack.callback(keeper.close)
            keeper.start()
        nodes = Nodes(lambda: self._endpoints.addresses, lambda: self._brokers.reachable)
        if not settings.gateway_commit_unknown_topics:
            lookup = Lookup(loop, self._topics_told, self._kafka_config)
            stack.callback(lookup.close)
            self._topics = Topics(lookup.ask)
        self._matching = Matching(loop, self._patterns.told, self._kafka_config, settings.all_topics)
        stack.callback(self._matching.close)
        origin = Origin(
            self._instance, partition, settings.gateway_groups_prefix, secret=secrets.token_bytes(16)
        )
        self._local = Local(
            origin, self._groups, nodes, writer.write, self._rules, self._renewals, self._topics
        )
        self.metrics.watch(self._local, self.pending, time.monotonic)

    async def _keep_time(self, stopping: asyncio.Event) -> None:
        linger_s = self._settings.gateway_beats_linger_ms / 1000
        instants = Instants(linger_s, time.time())
        early = Instants(linger_s, time.time(), _PREPARE_S)
        hurried = Instants(min(linger_s, _HURRY_S), time.time())
        look_at = 0.0
        while not stopping.is_set():
            wall_s = time.time()
            # The coordinator's clock ticks just then. Heartbeats that come some ms later may miss its batch.
            await asyncio.sleep(min(_TICK_S, instants.until_s(wall_s), early.until_s(wall_s)))
            now_s = time.monotonic()
            self._health.moves()
            self._local.expire(now_s)
            self._local.learn_limits(now_s)
            if now_s >= look_at:
                look_at = now_s + _LOOK_EVERY_S
                self._look(now_s)
            if early.has_come(time.time()):
                self._local.prepare(now_s)
            if instants.has_come(time.time()):
                self._local.send_prepared()
            if hurried.has_come(time.time()):
                self._local.flush_hurried(now_s)

    def _look(self, now_s: float) -> None:
        """Do what is done every second."""
        if self._certificates is not None:
            self._certificates.renew()
        if self._sides_file is not None and self._sides_file.renew():
            self._sides_changed()
        self.metrics.moving_seconds.set(self.sides.moving_s(time.time() * 1_000))
        self._brokers.settle(now_s)
        self.metrics.brokers_left_out.set(self._brokers.left_out)
        expiring: Iterable[Conversation] = self.pending.stopped
        if now_s >= self._expire_at_s:
            self._expire_at_s = now_s + _EXPIRE_EVERY_S
            expiring = self._listeners.connections
            for parties in (self._listeners.hosts, self._users):
                parties.forget(now_s)
        for connection in list(expiring):
            connection.expire(now_s)

    def _sides_changed(self) -> None:
        self._groups.sides_changed()
        for connection in self._listeners.connections:
            connection.sides_changed()

    async def _drain(self) -> None:
        """Give what waits some time, and end all connections: clients look for another gateway."""
        deadline = time.monotonic() + _DRAIN_S
        self._local.flush(time.monotonic())
        while time.monotonic() < deadline and any(each.is_owed for each in self._listeners.connections):
            await asyncio.sleep(_TICK_S)
            self._local.expire(time.monotonic())
        for connection in list(self._listeners.connections):
            connection.close("gateway stops")

    # -- what connections need (`Services`) ----------------------------------------------------------

    def answer(self, request: Request, client: Client, reply: Callable[[Any], None]) -> None:
        """Answer a local request; `reply` is called once, with Kafka's response."""
        self._local.answer(request, client, time.monotonic(), reply)

    def match(self, pattern: str, then: Callable[[Matched | None], None]) -> None:
        """Tell `then` which topics a pattern matches, in a moment; None if Kafka does not say so in time."""
        self._local.match(pattern, then)

    def beat_again(self, beat: Beat, answer: Callable[[Any], None]) -> None:
        """Answer a heartbeat that was accepted before; `answer` is called once (`Local.beat_again`)."""
        self._local.beat_again(beat, answer)

    @property
    def largest_frame(self) -> int:
        """Bytes of the largest request of a group that is read whole."""
        return min(self._rules.largest_frame, self._settings.gateway_max_unfinished_bytes)

    def held_up(self, client: Client) -> None:
        """A later request of the client waits for its newest heartbeat."""
        self._local.held_up(client)

    def entered(self, conversation: Conversation) -> Party | None:
        """A client has connected; returns the party of its host, or None if there is no room for it."""
        return self._listeners.admit(conversation)

    def logged_in(self, conversation: Conversation, name: str | None) -> Party | None:
        """The broker has accepted the client's login under this name; None if it is not known.

        Returns the party of the user.
        """
        self._local.logged_in(conversation.client, name)
        if name is None:
            return None
        now_s = time.monotonic()
        if self._users.refuses(name, now_s, conversation):
            if count := self._said["users"].happened(now_s):
                log.warning(
                    "%s connections are closed, such as one of %s: its user has as many as "
                    "gateway.max.connections.per.principal",
                    *(count, conversation.client.host),
                )
            conversation.abort("too many")
        return self._users.enter(name, conversation, now_s)

    def refused(self, client: Client, api: str) -> None:
        """A client has asked for what is answered with an error, which ends it."""
        if count := self._said["refused"].happened(time.monotonic()):
            log.warning(
                "%s requests are refused, such as %s of %s: its group could stay at the brokers "
                "(gateway.groups.brokers), or its client needs group.protocol=classic",
                *(count, api, client.host),
            )

    def failed(self, client: Client, reason: str) -> None:
        """A connection is closed for what its client, or its broker, has sent."""
        self.metrics.frame_errors.inc()
        if count := self._said["failed"].happened(time.monotonic()):
            log.warning("%s connections are closed, such as that of %s: %s", count, client.host, reason)

    def address_of(self, node_id: int, own: Address) -> Address | None:
        """Return the gateway's address for a broker, which a response names at `own`; None if it has none."""
        return self._endpoints.address_of(node_id, own)

    def connected(self, node_id: int, *, is_connected: bool) -> None:
        """Somebody has tried to connect to a broker."""
        self._brokers.connected(node_id, time.monotonic(), is_connected=is_connected)

    def closed(self, conversation: Conversation, reason: str) -> None:
        """A connection has gone."""
        self._local.gone(conversation.client)
        self.unfinished.ends(conversation)
        self.unread.ends(conversation)
        self._listeners.left(conversation, reason)

    def _stopped(self, conversation: Conversation) -> None:
        """Too many requests of a client wait, or of its user, beside those of the others."""
        if count := self._said["stopped"].happened(time.monotonic()):
            log.warning(
                "%s connections are not read, such as that of %s: too much of what waits is theirs. "
                "%s requests wait with %s bytes (gateway.max.waiting, gateway.max.waiting.bytes)",
                *(count, conversation.client.host, self.pending.count, self.pending.bytes),
            )

    # -- what the log tells (`Listener`) ---------------------------------------------------------------

    def _acknowledged(self, request_ids: Sequence[str]) -> None:
        self._local.acknowledged(request_ids, time.monotonic())

    def _refused(self, request_ids: Sequence[str]) -> None:
        self._local.refused(request_ids)

    def _responses(self, responses: Sequence[Any], unseen: Sequence[tuple[str, int]]) -> None:
        now_s = time.monotonic()
        for group_id, place in unseen:
            self._groups.unseen.told(group_id, place, now_s)
        self._local.take(responses, now_s)

    def _moved(self, changes: Mapping[str, SideRecord | None]) -> None:
        for record in changes.values():
            if record is not None and record.moving_to is not None:
                log.info("group %s moves to the %s", record.group_id, record.moving_to)
            elif record is not None:
                log.info("group %s is at the %s", record.group_id, record.side)
        self.sides.take(changes)
        self._sides_changed()

    def _is_guarded(self, group_id: str) -> bool:
        """Whether nobody may join the group at the brokers. A thread of its own asks."""
        is_known = group_id in self.sides.records or self._groups.knows(group_id)
        return is_known and self.sides.stays_here(group_id)

    def _topics_told(self, found: Mapping[str, Found]) -> None:
        if self._topics is not None:
            self._topics.told(found, time.monotonic())

    def _groups_changed(
        self,
        groups: Sequence[tuple[str, ListedGroup | None, int | None]],
        is_ready: bool,  # noqa: FBT001 - as the listener has it
    ) -> None:
        now_s = time.monotonic()
        for group_id, group, place in groups:
            self._groups.put(group_id, group)
            self._renewals.pictured(group_id, None if group is None else group.known)
            self._groups.unseen.seen(group_id, place)
            self._rules.shares.put(group_id, now_s, is_there=group is not None)
        self._groups.is_ready = self._groups.is_ready or is_ready


def _read_brokers(admin: KafkaAdminClient) -> dict[int, Address]:
    return {
        each["broker_id"] if "broker_id" in each else each["node_id"]: Address(each["host"], each["port"])
        for each in admin.describe_cluster()["brokers"]
    }
