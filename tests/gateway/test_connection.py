"""Connections over real sockets, with a scripted broker and answers that come when a test says so."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataResponse
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from prometheus_client import CollectorRegistry

from group_coordinator.coordinator_state import requests
from group_coordinator.gateway import codec, rights
from group_coordinator.gateway.addresses import Address
from group_coordinator.gateway.beats import Beat
from group_coordinator.gateway.connection import ClientConnection
from group_coordinator.gateway.limits import Budget, Limits, Pending, largest, longest
from group_coordinator.gateway.local import Client
from group_coordinator.gateway.metrics import GatewayMetrics
from group_coordinator.gateway.parties import Parties, Party
from group_coordinator.gateway.security import Security
from group_coordinator.gateway.turns import Turns
from tests.gateway.each_loop import each_loop, run  # noqa: F401 - a fixture
from tests.gateway.test_listeners import PASSWORD
from tests.gateway.test_listeners import of_client as client_of_tls
from tests.patience import PATIENCE_S, eventually
from tests.security.certificates import make_client_key

FETCH = 1
MOST_PENDING = 20
SHARE = MOST_PENDING // 2
"""Of one client, if no other one asks."""
MOST_UNFINISHED = 1_000
MOST_UNREAD = 2_000_000
REQUEST_RATE = 1_000
PLAIN, SASL = Security(), Security(has_sasl=True)
BEAT = HeartbeatRequest(version=0, group_id="g", generation_id=1, member_id="m")
ACCEPTED = Beat.of(
    requests.HeartbeatRequest(request_id="r", client_id="c", group_id="g", generation_id=1, member_id="m")
)


def fetch(correlation_id: int, body: bytes = b"") -> bytes:
    """A request that is passed on unread."""
    head = FETCH.to_bytes(2) + (12).to_bytes(2) + correlation_id.to_bytes(4)
    return (len(head) + len(body)).to_bytes(4) + head + body


def response(correlation_id: int, body: bytes = b"") -> bytes:
    return (4 + len(body)).to_bytes(4) + correlation_id.to_bytes(4) + body


@contextmanager
def unused_port() -> Iterator[int]:
    """A port at which nobody listens, and that nobody else is given."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


async def read(reader: asyncio.StreamReader) -> bytes:
    """One frame."""
    async with asyncio.timeout(PATIENCE_S):
        length = await reader.readexactly(4)
        return length + await reader.readexactly(int.from_bytes(length))


class Gateway:
    """What a connection needs, and a broker behind it."""

    def __init__(self, security: Security = PLAIN, tls: ssl.SSLContext | None = None) -> None:
        self._security, self._tls = security, tls
        self.connection: ClientConnection
        self.metrics = GatewayMetrics(CollectorRegistry())
        self.asked: list[Callable[[], None]] = []
        """Local requests; call one to answer it."""
        self.owed: list[int] = []
        """How many answers the first client waited for at each of them."""
        self.accepts = False
        """Whether heartbeats can be read by the coordinator."""
        self.asked_again: list[Callable[[int], None]] = []
        """Heartbeats that came again; call one with its error code."""
        self.clients: list[Client] = []
        self.held_up_for: list[Client] = []
        self.reasons: list[str] = []
        self.told: list[str] = []
        """Requests that were refused, and why connections were closed."""
        self.connections: list[ClientConnection] = []
        self.connections_to_brokers: list[tuple[int, bool]] = []
        self.stopped: list[ClientConnection] = []
        self.pending = Pending(MOST_PENDING, 1_000_000, self.stopped.append)
        self.turns = Turns(lambda function: asyncio.get_running_loop().call_soon(function), time.monotonic)
        self.hosts = Parties(0, REQUEST_RATE)
        self.users = Parties(0, REQUEST_RATE)
        self.unfinished: Budget[ClientConnection] = Budget(
            "unfinished requests", "", MOST_UNFINISHED, longest
        )
        self.unread: Budget[ClientConnection] = Budget("unread responses", "", MOST_UNREAD, largest)
        self.brokers: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.serving: list[tuple[int, Any]] = []
        """The brokers that can serve a client, in that order. This one is 1."""

    def answer(self, request: codec.Request, client: Client, reply: Callable[[Any], None]) -> None:
        self.clients.append(client)
        self.owed.append(len(self.connections[0]._slots))
        if self.accepts:
            client.accepted = ACCEPTED
        is_leave = request.head.api_key == LeaveGroupResponse.API_KEY
        kind, version = (LeaveGroupResponse, 3) if is_leave else (HeartbeatResponse, 0)
        self.asked.append(lambda: reply(kind(version=version, throttle_time_ms=0, error_code=0)))

    def beat_again(self, beat: Beat, answer: Callable[[int], None]) -> None:
        assert beat is ACCEPTED
        self.asked_again.append(answer)

    @property
    def largest_frame(self) -> int:
        return Limits.whole_frame

    def held_up(self, client: Client) -> None:
        self.held_up_for.append(client)

    def entered(self, connection: ClientConnection) -> Party | None:
        return self.hosts.enter(connection.client.host, connection, 0)

    def logged_in(self, connection: ClientConnection, name: str | None) -> Party | None:
        connection.client.principal = name
        return None if name is None else self.users.enter(name, connection, 0)

    def refused(self, client: Client, api: str) -> None:
        self.told.append(f"{api} of {client.host}")

    def failed(self, client: Client, reason: str) -> None:
        self.metrics.frame_errors.inc()
        self.told.append(f"{client.host}: {reason}")

    def address_of(self, node_id: int, own: Address) -> Address | None:
        raise AssertionError(node_id, own)

    def connected(self, node_id: int, *, is_connected: bool) -> None:
        self.connections_to_brokers.append((node_id, is_connected))

    def control(self) -> None:
        for each in self.connections:
            each.control()

    def closed(self, connection: ClientConnection, reason: str) -> None:
        self.unread.ends(connection)
        self.reasons.append(reason)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self.brokers.put((reader, writer))

        loop = asyncio.get_running_loop()
        broker = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=self._tls)
        self.serving.append((1, broker.sockets[0].getsockname()))

        def enter() -> ClientConnection:
            self.connection = ClientConnection(self, 1, lambda: self.serving, self._security)
            self.connections.append(self.connection)
            return self.connection

        server = await loop.create_server(enter, "127.0.0.1", 0, ssl=self._tls)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            broker.close()

    def has_lost_a_client(self) -> bool:
        """Whether a client has gone. One that is still owed something may only have closed its side."""
        for each in self.connections:
            if each._patience.ended_s is not None:
                each.expire(time.monotonic() + 2 * Limits.end_s)
        return bool(self.reasons)

    async def broker(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(PATIENCE_S):
            return await self.brokers.get()


Story = Callable[[Gateway, asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def play(story: Story, security: Security = PLAIN, tls: ssl.SSLContext | None = None) -> Gateway:
    """`tls`: of the broker's port and the gateway's. `security` has that of their clients."""

    async def played() -> Gateway:
        gateway = Gateway(security, tls)
        async with gateway.running() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=security.tls)
            try:
                await story(gateway, reader, writer)
            except BaseException:
                # A client that is owed something would wait for it.
                for each in gateway.connections:
                    each.abort("client")
                raise
            finally:
                writer.close()
                await eventually(gateway.has_lost_a_client)
        return gateway

    return run(played())


def server_of_tls(directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(make_client_key(directory, PASSWORD), password=PASSWORD)
    return context


MOST_HELD = 2 * Limits.unwritten
"""Of one connection in one direction: what asyncio reads at a time comes on top of the limit."""


def held(transport: Any) -> int:
    return int(transport.get_write_buffer_size())


def beat(correlation_id: int) -> bytes:
    return codec.encode_request(BEAT, correlation_id, "c")


def test_answers_come_in_the_order_of_the_questions() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(fetch(1) + beat(2) + fetch(3) + beat(4))
        from_gateway, to_gateway = await gateway.broker()
        assert [await read(from_gateway) for _ in range(2)] == [fetch(1), fetch(3)], "a wait holds nothing up"
        await eventually(lambda: len(gateway.asked) == 2)
        gateway.asked[1]()
        to_gateway.write(response(1) + response(3, b"later"))
        assert await read(reader) == response(1)
        gateway.asked[0]()
        assert [int.from_bytes((await read(reader))[4:8]) for _ in range(3)] == [2, 3, 4]
        assert (gateway.clients[0].host, gateway.clients[0].node_id) == ("/127.0.0.1", 1)
        # By the second fetch and the second beat, behind the first beat.
        assert gateway.held_up_for == [gateway.connection.client] * 2
        writer.write(fetch(5) + beat(6))
        assert await read(from_gateway) == fetch(5)
        await eventually(lambda: len(gateway.asked) == 3)
        assert len(gateway.held_up_for) == 2, "no beat waits before these"
        to_gateway.close()

    play(story)


def test_frames_of_many_tls_records_are_passed_unharmed(tmp_path: Path) -> None:
    # A record has 16 kB at most.
    body = random.Random(1).randbytes(100_000)

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(fetch(1, body))
        from_gateway, to_gateway = await gateway.broker()
        assert await read(from_gateway) == fetch(1, body)
        to_gateway.write(response(1, body))
        assert await read(reader) == response(1, body)

    play(story, Security(tls=client_of_tls()), server_of_tls(tmp_path))


def test_a_produce_without_acknowledgements_has_no_response() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent = codec.encode_request(ProduceRequest(version=9, acks=0, timeout_ms=1), 1, "c")
        spoken = codec.encode_request(ProduceRequest(version=9, acks=1, timeout_ms=1), 2, "c")
        for byte in silent:
            writer.write(bytes([byte]))
            await writer.drain()
        writer.write(spoken + beat(3))
        from_gateway, to_gateway = await gateway.broker()
        assert [await read(from_gateway) for _ in range(2)] == [silent, spoken]
        to_gateway.write(response(2))
        assert await read(reader) == response(2)
        await eventually(lambda: gateway.asked)
        gateway.asked[0]()
        assert (await read(reader))[4:8] == (3).to_bytes(4)
        to_gateway.close()

    play(story)


def test_an_idle_broker_may_go_and_the_client_notices_nothing() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in (1, 2):
            writer.write(fetch(number))
            from_gateway, to_gateway = await gateway.broker()
            await read(from_gateway)
            to_gateway.write(response(number))
            assert await read(reader) == response(number)
            to_gateway.close()
            await eventually(from_gateway.at_eof)
            writer.write(beat(10 + number))
            await eventually(lambda: gateway.asked)
            gateway.asked.pop()()
            await read(reader)

    gateway = play(story)
    assert gateway.reasons == ["client"]


def test_a_broker_that_goes_takes_its_client_along_after_what_it_does_not_owe() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(beat(1) + fetch(2) + beat(3))
        from_gateway, to_gateway = await gateway.broker()
        await read(from_gateway)
        await eventually(lambda: len(gateway.asked) == 2)
        to_gateway.close()
        await to_gateway.wait_closed()
        gateway.asked[1]()
        gateway.asked[0]()
        assert (await read(reader))[4:8] == (1).to_bytes(4)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""

    gateway = play(story)
    assert gateway.reasons == ["broker"]


@pytest.mark.parametrize(
    ("address", "shown"), [("::ffff:10.0.0.7", "/10.0.0.7"), ("10.0.0.7", "/10.0.0.7"), ("::1", "/::1")]
)
def test_a_client_at_a_port_for_both_kinds_of_addresses_has_the_same_host(address: str, shown: str) -> None:
    connection = ClientConnection(Gateway(), 1, list, PLAIN)
    connection.connection_made(Mock(**{"get_extra_info.return_value": (address, 1)}))
    assert connection.client.host == shown


def test_a_client_that_does_not_read_holds_up_its_broker_and_nobody_else() -> None:
    sent = response(1, random.Random(1).randbytes(64 * 1024 * 1024))

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(fetch(1))
        from_gateway, to_gateway = await gateway.broker()
        await read(from_gateway)
        to_gateway.write(sent)
        with pytest.raises(TimeoutError):
            # What fits into the buffers of the sockets and of the gateway is a small part of it.
            await asyncio.wait_for(to_gateway.drain(), 1)
        (connection,) = gateway.connections
        assert Limits.unwritten < held(connection._transport) <= MOST_HELD
        assert connection._slots.take() == [], "nothing waits beside that"
        assert gateway.unread.total == held(connection._transport)
        port = writer.get_extra_info("peername")[1]
        other_reader, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(fetch(7))
        from_other, to_other = await gateway.broker()
        await read(from_other)
        to_other.write(response(7))
        assert await read(other_reader) == response(7)
        for each in (other, to_other):
            each.close()
        await eventually(lambda: gateway.reasons)
        gateway.reasons.clear()
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readexactly(len(sent)) == sent
        await eventually(lambda: gateway.unread.total == 0)
        to_gateway.close()

    play(story)


def test_a_broker_that_does_not_read_holds_up_its_client() -> None:
    async def story(gateway: Gateway, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(fetch(1, bytes(64 * 1024 * 1024)))
        _, to_gateway = await gateway.broker()
        to_gateway.transport.pause_reading()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), 1)
        (connection,) = gateway.connections
        assert Limits.unwritten < held(connection._upstream._transport) <= MOST_HELD
        assert gateway.unread.total == held(connection._upstream._transport)
        to_gateway.transport.abort()

    play(story)


def test_versions_are_those_that_are_offered_by_the_broker_and_here() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        entry = ApiVersionsResponse.ApiVersion
        other = await asyncio.open_connection("127.0.0.1", writer.get_extra_info("peername")[1])
        # While brokers are upgraded, one of them offers more than the other.
        for (of_client, to_gateway), newest, offered in ((other, 7, 7), ((reader, writer), 50, 9)):
            keys = [entry(version=2, api_key=key, min_version=0, max_version=newest) for key in (8, 69)]
            to_gateway.write(codec.encode_request(ApiVersionsRequest(version=2), 7, "c"))
            of_broker, to_client = await gateway.broker()
            await read(of_broker)
            to_client.write(codec.encode_response(ApiVersionsResponse(version=2, api_keys=keys), 7))
            told = codec.decode_response(18, 2, await read(of_client))
            assert [(each.api_key, each.max_version) for each in told.api_keys] == [(8, offered)]
            to_client.close()
        writer.write((12).to_bytes(4) + bytes.fromhex("0012006300000008") + b"\xff\xff\0\0")
        assert (await read(reader))[4:10] == bytes.fromhex("000000080023"), (
            "UNSUPPORTED_VERSION, in version 0"
        )
        other[1].close()

    play(story)


def test_clients_are_not_read_while_too_many_requests_wait() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # In one piece, and after it: what has been read is not taken either.
        writer.write(b"".join(map(beat, range(MOST_PENDING))))
        await eventually(lambda: gateway.stopped)
        writer.write(fetch(99))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(gateway.brokers.get(), 0.2)
        assert len(gateway.asked) == SHARE
        other_reader, other = await asyncio.open_connection("127.0.0.1", writer.get_extra_info("peername")[1])
        other.write(beat(1))
        await eventually(lambda: len(gateway.asked) == SHARE + 1)
        gateway.asked.pop()()
        assert await read(other_reader), "others may ask"
        other.close()
        await eventually(lambda: gateway.reasons.pop() if gateway.reasons else None)
        for number in range(MOST_PENDING):
            await eventually(lambda number=number: len(gateway.asked) > number)
            gateway.asked[number]()
        from_gateway, to_gateway = await gateway.broker()
        assert await read(from_gateway) == fetch(99)
        assert gateway.pending.count == 0
        to_gateway.close()

    assert play(story).connections_to_brokers == [(1, True)]


def test_a_client_that_any_broker_can_serve_is_served_by_one_that_can_be_reached() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with unused_port() as port:
            gateway.serving.insert(0, (2, ("127.0.0.1", port)))
            writer.write(fetch(1, b"all of it"))
            from_gateway, to_gateway = await gateway.broker()
            assert await read(from_gateway) == fetch(1, b"all of it")
            to_gateway.write(response(1))
            assert await read(reader) == response(1)
            to_gateway.close()
            await eventually(lambda: gateway.metrics.upstream_errors._value.get() == 1)
            assert gateway.connections_to_brokers == [(2, False), (1, True)]
            # From now on it is that one's, whose versions the client has been told.
            writer.write(fetch(2))
            from_gateway, to_gateway = await gateway.broker()
            assert await read(from_gateway) == fetch(2)
        assert gateway.reasons == []
        to_gateway.close()
        assert gateway.connections_to_brokers == [(2, False), (1, True), (1, True)]

    play(story)


@pytest.mark.parametrize("others", [0, 1])
def test_a_client_that_no_broker_can_serve_is_let_go(others: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with unused_port() as port:
            nobody = ("127.0.0.1", port)
            gateway.serving[:] = [(2, nobody), (3, nobody)][: 1 + others]
            writer.write(fetch(1))
            assert await reader.read() == b""
            await eventually(lambda: gateway.reasons)
        (message,) = caplog.messages
        assert message.count(f"no connection to 127.0.0.1:{port}") == 1 + others

    assert play(story).connections_to_brokers == [(2, False), (3, False)][: 1 + others]


def test_a_client_whose_broker_has_gone_from_the_list_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(fetch(1))
        from_gateway, to_gateway = await gateway.broker()
        assert await read(from_gateway) == fetch(1)
        to_gateway.write(response(1))
        assert await read(reader) == response(1)
        to_gateway.close()
        await eventually(lambda: gateway.metrics.upstream_errors._value.get() == 1)
        gateway.serving[:] = [(2, gateway.serving[0][1])]
        writer.write(fetch(2))
        assert await reader.read() == b""

    assert play(story).reasons == ["broker"]
    assert "the broker that has served it is away" in caplog.messages[-1]


def test_what_a_client_has_asked_that_has_gone_does_not_wait() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gateway.accepts = True
        writer.write(beat(1) + beat(2))
        await eventually(lambda: gateway.pending.count == 2)
        gateway.asked[0]()
        writer.write(beat(3))
        await eventually(lambda: gateway.asked_again)
        writer.close()
        await eventually(lambda: gateway.connection._patience.ended_s is not None)
        gateway.connection.expire(time.monotonic())
        assert gateway.pending.count == 2, "it may only have closed its side"
        gateway.connection.expire(time.monotonic() + Limits.end_s)
        await eventually(lambda: gateway.reasons)
        assert gateway.pending.count == 0
        # An answer that comes later is not counted again.
        gateway.asked[1]()
        gateway.asked_again[0](0)
        assert (gateway.pending.count, gateway.pending.bytes) == (0, 0)

    play(story)


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_client_that_goes_while_no_client_is_read_is_noticed(is_plain: bool, tmp_path: Path) -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(map(beat, range(MOST_PENDING))))
        await eventually(lambda: gateway.stopped)
        writer.write(beat(99))
        gateway.connection.expire(time.monotonic())
        assert gateway.pending.stopped
        # With TLS, close() would wait for the gateway's word.
        writer.transport.abort()

        def has_gone() -> list[str]:
            gateway.connection.expire(time.monotonic())
            return gateway.reasons

        await eventually(has_gone)
        assert (gateway.pending.count, gateway.pending.stopped) == (0, {})

    ends = () if is_plain else (Security(tls=client_of_tls()), server_of_tls(tmp_path))
    gateway = play(story, *ends)
    assert gateway.reasons == ["client"]
    assert len(gateway.asked) == SHARE


def test_responses_that_wait_for_one_before_them_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Limits, "held", 40)

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(map(beat, range(5))))
        await eventually(lambda: len(gateway.asked) == 5)
        for answer in gateway.asked[1:4]:
            answer()  # of 10 bytes
        assert gateway.reasons == []
        gateway.asked[0]()
        assert [int.from_bytes((await read(reader))[4:8]) for _ in range(4)] == [0, 1, 2, 3]

        writer.write(b"".join(map(beat, range(5, 10))))
        await eventually(lambda: len(gateway.asked) == 10)
        for answer in gateway.asked[5:]:
            answer()
        await eventually(lambda: gateway.reasons)

    assert play(story).reasons == ["frame error"]


def test_the_connection_goes_that_keeps_most_of_what_is_not_read() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gateway.unread = Budget("unread responses", "", 40, largest)
        port = writer.get_extra_info("peername")[1]
        other_reader, other = await asyncio.open_connection("127.0.0.1", port)
        for each, count in ((writer, 3), (other, 4)):
            asked = len(gateway.asked) + count
            each.write(b"".join(map(beat, range(count))))
            await eventually(lambda: len(gateway.asked) == asked)  # noqa: B023 - it is awaited at once
        # Of 10 bytes each, behind one that waits.
        for answer in (*gateway.asked[1:3], *gateway.asked[4:6]):
            answer()
        assert gateway.unread.total == 40
        gateway.asked[6]()
        async with asyncio.timeout(PATIENCE_S):
            assert await other_reader.read() == b""
        gateway.asked[0]()
        assert [int.from_bytes((await read(reader))[4:8]) for _ in range(3)] == [0, 1, 2]
        assert gateway.unread.total == 0
        other.close()

    assert play(story).reasons == ["unread responses", "client"]


def test_the_connection_goes_whose_request_has_been_unfinished_longest() -> None:
    long = codec.encode_request(HeartbeatRequest(version=0, group_id="g" * 800, member_id="m"), 1, "c")

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(long + long[:700])
        await eventually(lambda: gateway.unfinished.total == 700)
        port = writer.get_extra_info("peername")[1]
        _, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(long[:500])
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        other.write(long[500:])
        await eventually(lambda: len(gateway.asked) == 2)
        assert gateway.unfinished.total == 0
        gateway.asked[1]()
        other.close()
        await eventually(lambda: len(gateway.reasons) == 2)

    assert play(story).reasons == ["unfinished requests", "client"]


LARGE = Limits.whole_frame + 1_000


def large(message: Any, fill: str) -> bytes:
    """A request whose bytes field `fill` makes it larger than what is kept."""
    message.group_id, message.member_id = "g", ""
    (entry,) = getattr(message, "protocols", None) or message.assignments
    setattr(entry, fill, bytes(LARGE))
    return codec.encode_request(message, 5, "c")


def test_a_request_that_is_too_large_to_be_kept_is_answered_and_the_connection_stays() -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id="m", assignment=b"")
    times = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
    joins = (JoinGroupRequest(version=version, protocols=[protocol], **times) for version in (0, 9))
    sent = [
        *((large(each, "metadata"), 11, each.version, 81) for each in joins),
        (large(SyncGroupRequest(version=5, assignments=[assignment]), "assignment"), 14, 5, -1),
    ]

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for frame, api_key, version, error in sent:
            writer.write(frame[:-1])
            await writer.drain()
            assert gateway.unfinished.total == 0, "nothing of it is kept"
            writer.write(frame[-1:])
            told = codec.decode_response(api_key, version, await read(reader))
            assert told.error_code == error
        writer.write(beat(1))
        await eventually(lambda: gateway.asked)
        gateway.asked[0]()
        assert (await read(reader))[4:8] == (1).to_bytes(4)

    assert play(story).reasons == ["client"]


@pytest.mark.parametrize(
    ("api_key", "size", "security"),
    [(11, Limits.passed_frame + 1, PLAIN), (12, LARGE, PLAIN), (11, LARGE, SASL)],
)
def test_a_request_that_cannot_be_answered_so_is_closed(api_key: int, size: int, security: Security) -> None:
    head = size.to_bytes(4) + api_key.to_bytes(2) + bytes(2) + bytes(4)

    async def story(_gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        with suppress(ConnectionError):
            for _ in range(LARGE // 1_000_000 + 1):
                writer.write(bytes(min(1_000_000, LARGE)))
                await writer.drain()
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read() == b""

    assert play(story, security).reasons == ["frame error"]


class Transport:
    """Takes what is written, and how the connection ended."""

    def __init__(self, connected: socket.socket) -> None:
        self.ended = ""
        self._socket = connected

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def is_closing(self) -> bool:
        return bool(self.ended)

    def is_reading(self) -> bool:
        return True

    def get_extra_info(self, name: str) -> Any:
        return self._socket if name == "socket" else ("10.0.0.7", 1)

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == Limits.unwritten

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.fixture
def transport() -> Iterator[Transport]:
    """Of a client that is there all the time."""
    ours, clients = socket.socketpair()
    with ours, clients:
        yield Transport(ours)


@pytest.mark.parametrize(
    ("sent", "silent_s", "ended"),
    [
        (b"", Limits.first_frame_s - 1, ""),
        (b"", Limits.first_frame_s + 1, "closed"),
        # One byte after the other, and so never silent.
        (beat(1)[:-1], Limits.local_frame_s, ""),
        (beat(1)[:-1], Limits.local_frame_s + 1, "aborted"),
    ],
)
def test_a_connection_of_which_nothing_whole_comes_is_closed(
    transport: Transport, sent: bytes, silent_s: float, ended: str
) -> None:
    connection = ClientConnection(Gateway(PLAIN), 1, list, PLAIN)
    connection.connection_made(transport)
    began_s = time.monotonic()
    for byte in sent:
        connection.data_received(bytes([byte]))
    patience = connection._patience
    # The limit of a first request is another one.
    patience.has_asked = bool(sent)
    patience.heard_s = began_s + (silent_s if sent else 0)
    patience.unfinished_s = began_s if patience.unfinished_s else None
    connection.expire(began_s + silent_s)
    assert transport.ended == ended


def test_a_client_that_does_not_read_goes_though_it_is_owed_something(transport: Transport) -> None:
    connection = ClientConnection(Gateway(PLAIN), 1, list, PLAIN)
    connection.connection_made(transport)
    connection._slots.await_local()
    connection._patience.has_asked = True
    now_s = time.monotonic()
    connection.expire(now_s + 2 * Limits.idle_s)
    assert transport.ended == ""
    transport.is_reading = lambda: False
    connection.pause_writing()
    connection.expire(now_s + 2 * Limits.idle_s)
    assert transport.ended == "aborted"


def test_nothing_more_is_written_to_a_client_that_has_gone(transport: Transport) -> None:
    connection = ClientConnection(Gateway(PLAIN), 1, list, PLAIN)
    connection.connection_made(transport)
    written: list[bytes] = []

    def write(data: bytes) -> None:
        written.append(data)
        transport.abort()

    transport.write = write  # type: ignore[attr-defined]
    first, second = connection._slots.await_local(), connection._slots.await_local()
    second.fill(response(2))
    first.fill(response(1))
    connection._flush()
    assert written == [response(1)]


# -- logins --------------------------------------------------------------------------------------------


def handshake(correlation_id: int) -> bytes:
    message = SaslHandshakeRequest(version=1, mechanism="PLAIN")
    return codec.encode_request(message, correlation_id, "c")


def accepted(correlation_id: int) -> bytes:
    return codec.encode_response(
        SaslHandshakeResponse(version=1, error_code=0, mechanisms=[]), correlation_id
    )


def authenticate(correlation_id: int, name: bytes = b"alice") -> bytes:
    message = SaslAuthenticateRequest(version=2, auth_bytes=b"\0%b\0secret" % name)
    return codec.encode_request(message, correlation_id, "c")


def authenticated(correlation_id: int, lifetime_ms: int = 0, error_code: int = 0) -> bytes:
    message = SaslAuthenticateResponse(
        version=2, error_code=error_code, auth_bytes=b"", session_lifetime_ms=lifetime_ms
    )
    return codec.encode_response(message, correlation_id)


ALIVE = codec.encode_response(MetadataResponse(version=1, brokers=[], controller_id=1, topics=[]), 0)
"""The broker's answer to the gateway's own question."""


async def is_asked(from_gateway: asyncio.StreamReader) -> bool:
    return (await read(from_gateway))[4:8] == bytes.fromhex("00030001")


async def log_in(
    gateway: Gateway, writer: asyncio.StreamWriter, lifetime_ms: int = 0
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Log a client in, and have it send a heartbeat; returns the broker's side, when that is asked."""
    writer.write(authenticate(1) + beat(2))
    from_gateway, to_gateway = await gateway.broker()
    await read(from_gateway)
    to_gateway.write(authenticated(1, lifetime_ms))
    await is_asked(from_gateway)
    to_gateway.write(ALIVE)
    await eventually(lambda: gateway.asked)
    return from_gateway, to_gateway


def test_a_login_takes_its_turn_and_nothing_is_answered_before_the_broker_says_so() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(authenticate(1) + beat(2) + fetch(3) + authenticate(4) + fetch(5))
        from_gateway, to_gateway = await gateway.broker()
        assert await read(from_gateway) == authenticate(1)
        to_gateway.write(authenticated(1))
        assert await is_asked(from_gateway)
        assert gateway.asked == []
        to_gateway.write(ALIVE)
        assert await read(from_gateway) == fetch(3)
        to_gateway.write(response(3))
        await eventually(lambda: gateway.asked)
        with pytest.raises(TimeoutError):
            # The beat is not answered yet.
            await asyncio.wait_for(from_gateway.read(1), 0.2)
        gateway.asked[0]()
        assert await read(from_gateway) == authenticate(4)
        to_gateway.write(authenticated(4))
        assert await read(from_gateway) == fetch(5)
        to_gateway.write(response(5))
        assert [int.from_bytes((await read(reader))[4:8]) for _ in range(5)] == [1, 2, 3, 4, 5]
        to_gateway.close()

    play(story, SASL)


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_what_waits_is_not_overwritten_by_what_another_client_sends(size: int) -> None:
    waiting, other = fetch(2, random.Random(size).randbytes(size)), fetch(3, bytes(200_000))

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(handshake(1) + waiting)
        from_gateway, to_gateway = await gateway.broker()
        assert await read(from_gateway) == handshake(1)
        _, second = await asyncio.open_connection(*writer.get_extra_info("peername"))
        second.write(other)
        from_second, to_second = await gateway.broker()
        assert await read(from_second) == other
        to_gateway.write(accepted(1))
        assert await read(from_gateway) == waiting
        to_gateway.write(response(2))
        assert [await read(reader) for _ in range(2)] == [accepted(1), response(2)]
        for each in (second, to_second, to_gateway):
            each.close()

    play(story)


def test_who_has_not_logged_in_to_the_end_is_closed_by_the_broker() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(authenticate(1) + beat(2))
        from_gateway, to_gateway = await gateway.broker()
        await read(from_gateway)
        to_gateway.write(authenticated(1))  # the first of two rounds, as far as anybody can tell
        assert await is_asked(from_gateway)
        to_gateway.close()
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read())[4:8] == (1).to_bytes(4)
        assert gateway.asked == []

    assert play(story, SASL).reasons == ["broker"]


def test_a_session_that_is_over_ends_the_connection() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gateway.accepts = True
        _, to_gateway = await log_in(gateway, writer, lifetime_ms=1)
        writer.write(beat(3))
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read())[4:8] == (1).to_bytes(4)
        to_gateway.close()

    assert play(story, SASL).reasons == ["frame error"]


def test_requests_have_the_name_that_the_broker_has_accepted() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(handshake(1) + authenticate(2) + beat(3))
        from_gateway, to_gateway = await gateway.broker()
        await read(from_gateway)
        to_gateway.write(accepted(1))
        await read(from_gateway)
        assert gateway.connection.client.principal is None
        to_gateway.write(authenticated(2, lifetime_ms=1_000_000))
        await is_asked(from_gateway)
        to_gateway.write(ALIVE)
        await eventually(lambda: gateway.asked)
        assert [each.principal for each in gateway.clients] == ["alice"]
        gateway.asked[0]()
        # A second login that the broker refuses takes nothing of the first one.
        writer.write(handshake(4) + authenticate(5, b"mallory") + beat(6))
        await read(from_gateway)
        to_gateway.write(accepted(4))
        await read(from_gateway)
        to_gateway.write(authenticated(5, error_code=58))
        await eventually(lambda: len(gateway.asked) == 2)
        assert [each.principal for each in gateway.clients] == ["alice", "alice"]
        assert gateway.connection._login.is_over(time.monotonic() + 1_001)
        to_gateway.close()

    play(story, SASL)


def test_a_login_is_kept_alive_and_is_lost_with_its_broker() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_gateway, to_gateway = await log_in(gateway, writer)
        gateway.asked[0]()
        assert [int.from_bytes((await read(reader))[4:8]) for _ in range(2)] == [1, 2]
        for silent_s in (Limits.keep_alive_s - 1, Limits.keep_alive_s + 1):
            gateway.connection.expire(gateway.connection.heard_s + silent_s)
        assert await is_asked(from_gateway)
        to_gateway.write(ALIVE)
        to_gateway.close()
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""

    assert play(story, SASL).reasons == ["broker"]


def test_a_login_without_frames_is_refused() -> None:
    async def story(_gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(codec.encode_request(SaslHandshakeRequest(version=0, mechanism="PLAIN"), 9, "c"))
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == bytes.fromhex("0000000a00000009002300000000")

    play(story)


def test_a_heartbeat_that_comes_again_is_known_by_its_bytes() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gateway.accepts = True
        writer.write(beat(1))
        await eventually(lambda: gateway.asked)
        gateway.asked[0]()
        assert (await read(reader))[4:8] == (1).to_bytes(4)
        writer.write(beat(2))
        await eventually(lambda: gateway.asked_again)
        writer.write(fetch(3))
        from_gateway, to_gateway = await gateway.broker()
        assert await read(from_gateway) == fetch(3)
        to_gateway.write(response(3))
        assert gateway.held_up_for == [gateway.connection.client]
        gateway.asked_again[0](27)
        refusal = HeartbeatResponse(version=0, error_code=27)
        assert await read(reader) == codec.encode_response(refusal, 2)
        assert await read(reader) == response(3)
        # What only ends with such bytes is another request.
        longer = fetch(4, beat(5))
        received = gateway.metrics.received.total
        writer.write(longer[: -len(beat(5))])
        await eventually(lambda: gateway.metrics.received.total > received)
        writer.write(beat(5))
        assert await read(from_gateway) == longer
        # So is one of another generation, and that of before is another one then.
        for number, generation_id in ((6, 2), (7, 1)):
            message = HeartbeatRequest(version=0, group_id="g", generation_id=generation_id, member_id="m")
            writer.write(codec.encode_request(message, number, "c"))
            await eventually(lambda number=number: len(gateway.asked) == number - 4)
        assert len(gateway.asked_again) == 1
        to_gateway.close()

    gateway = play(story)
    assert gateway.metrics.requests[HeartbeatRequest.API_KEY].total == 4
    assert gateway.pending.count == 0


def test_one_that_the_coordinator_cannot_read_is_not_taken_again() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in (1, 2):
            writer.write(beat(number))
            await eventually(lambda number=number: len(gateway.asked) == number)
        assert gateway.asked_again == []

    play(story)


def test_one_that_is_large_is_not_kept() -> None:
    # A tag that nobody knows (KIP-482): a broker passes over it.
    small = codec.encode_request(HeartbeatRequest(version=4, group_id="g", member_id="m"), 1, "c")
    body = small[4:-1] + b"\x01\x63\x90\x4e" + bytes(10_000)
    large = len(body).to_bytes(4) + body

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gateway.accepts = True
        for number in (1, 2):
            writer.write(large)
            await eventually(lambda number=number: len(gateway.asked) == number)
        assert gateway.asked_again == []
        for answer in gateway.asked:
            answer()
        for _ in range(2):
            await read(reader)

    assert Limits.kept_frame < len(large) < Limits.local_frame
    assert play(story).connection._beat is None


def test_clients_whose_heartbeats_come_again_are_not_read_either_while_too_many_wait() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gateway.accepts = True
        writer.write(beat(0))
        await eventually(lambda: gateway.asked)
        for number in range(1, SHARE):
            writer.write(beat(number))
            await eventually(lambda number=number: len(gateway.asked_again) == number)
        assert gateway.pending.stopped
        writer.write(beat(99))
        gateway.asked[0]()
        await eventually(lambda: len(gateway.asked_again) == SHARE)
        for answer in gateway.asked_again:
            answer(0)
        numbers = [int.from_bytes((await read(reader))[4:8]) for _ in range(SHARE + 1)]
        assert numbers == [*range(SHARE), 99]
        assert gateway.pending.count == 0

    play(story)


@pytest.mark.parametrize("granted_s", [0, 60])
def test_one_that_comes_again_needs_its_right_again(
    monkeypatch: pytest.MonkeyPatch, granted_s: float
) -> None:
    monkeypatch.setattr(rights, "_GRANTED_S", granted_s)
    granted = codec.encode_response(HeartbeatResponse(version=0, error_code=25), 0)

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gateway.accepts = True
        writer.write(beat(1))
        from_gateway, to_gateway = await gateway.broker()
        await read(from_gateway)
        to_gateway.write(granted)
        await eventually(lambda: gateway.asked)
        writer.write(beat(2))
        if granted_s:
            await eventually(lambda: gateway.asked_again)
        else:
            await read(from_gateway)
            to_gateway.write(granted)
            await eventually(lambda: len(gateway.asked) == 2)
        to_gateway.close()

    gateway = play(story, Security(asks_rights=True))
    assert len(gateway.asked) + len(gateway.asked_again) == 2


def test_one_that_comes_again_needs_no_other_login_and_none_that_is_lost() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gateway.accepts = True
        from_gateway, to_gateway = await log_in(gateway, writer)
        gateway.asked[0]()
        writer.write(beat(3))
        await eventually(lambda: gateway.asked_again)
        gateway.asked_again[0](0)
        assert [int.from_bytes((await read(reader))[4:8]) for _ in range(3)] == [1, 2, 3]
        # While the client logs in again, what comes next has to wait.
        writer.write(authenticate(4))
        assert await read(from_gateway) == authenticate(4)
        writer.write(beat(5))
        to_gateway.write(authenticated(4))
        await eventually(lambda: len(gateway.asked_again) == 2 or len(gateway.asked) == 2)
        for answer in gateway.asked[1:]:
            answer()
        for again in gateway.asked_again[1:]:
            again(0)
        assert [int.from_bytes((await read(reader))[4:8]) for _ in range(2)] == [4, 5]
        to_gateway.close()

    play(story, SASL)


def test_a_request_waits_for_its_rights_and_what_comes_next_for_it() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(beat(1) + fetch(2) + beat(3))
        from_gateway, to_gateway = await gateway.broker()
        assert await read(from_gateway) == codec.encode_request(
            HeartbeatRequest(version=0, group_id="g", generation_id=-1, member_id=""),
            0,
            "group-coordinator-gateway",
        )
        assert gateway.asked == []
        to_gateway.write(codec.encode_response(HeartbeatResponse(version=0, error_code=25), 0))
        assert await read(from_gateway) == fetch(2), "the second beat's right is known"
        await eventually(lambda: len(gateway.asked) == 2)
        for answer in gateway.asked:
            answer()
        to_gateway.write(response(2))
        assert [int.from_bytes((await read(reader))[4:8]) for _ in range(3)] == [1, 2, 3]
        to_gateway.close()

    play(story, Security(asks_rights=True))


@pytest.mark.parametrize("is_passed", [True, False])
def test_a_client_that_has_closed_its_side_is_answered(is_passed: bool) -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(fetch(1) if is_passed else beat(1))
        writer.write_eof()
        if is_passed:
            from_gateway, to_gateway = await gateway.broker()
            await read(from_gateway)
            to_gateway.write(response(1))
            to_gateway.close()
        else:
            await eventually(lambda: gateway.asked)
            gateway.asked[0]()
        assert (await read(reader))[4:8] == (1).to_bytes(4)
        assert await reader.read() == b""

    assert play(story).reasons == ["client"]


@pytest.mark.parametrize("frame", [fetch(1), beat(1)])
def test_nothing_is_read_before_a_login(frame: bytes) -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame)
        assert await reader.read() == b""
        assert gateway.brokers.empty()

    gateway = play(story, SASL)
    assert gateway.reasons == ["frame error"]
    assert "comes before a login" in gateway.told[0]


@pytest.mark.parametrize("key", [17, 18, 36])
def test_a_frame_before_a_login_has_512_kib_at_most(key: int) -> None:
    async def story(_gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((512 * 1024 + 1).to_bytes(4) + key.to_bytes(2) + (1).to_bytes(2) + bytes(4))
        assert await reader.read() == b""

    assert "524289 bytes, of at most 524288" in play(story, SASL).told[0]


def leave(correlation_id: int, members: int) -> bytes:
    member = LeaveGroupRequest.MemberIdentity(member_id="m")
    message = LeaveGroupRequest(version=3, group_id="g", members=[member] * members)
    return codec.encode_request(message, correlation_id, "c")


@pytest.mark.parametrize(("elements", "asked"), [(Limits.elements_alone, 3), (Limits.elements_alone + 1, 1)])
def test_a_large_request_holds_back_what_comes_after_it(elements: int, asked: int) -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(leave(1, elements) + leave(2, elements) + beat(3))
        await eventually(lambda: len(gateway.asked) == asked)
        for number in range(3):
            await eventually(lambda number=number: len(gateway.asked) > number)
            gateway.asked[number]()
            assert int.from_bytes((await read(reader))[4:8]) == number + 1

    play(story)


def test_a_user_that_asks_too_often_is_told_so_and_not_read_for_a_while() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = gateway.hosts.of("/127.0.0.1")
        for _ in range(2 * REQUEST_RATE):
            host.requests.take(time.monotonic())
        writer.write(beat(1) + leave(2, 1) + beat(3))
        await eventually(lambda: len(gateway.asked) == 2)
        gateway.asked[0]()
        assert await read(reader), "heartbeats are not counted"
        gateway.asked[1]()
        told = codec.decode_response(13, 3, await read(reader)).throttle_time_ms
        assert 0 < told <= 1_100
        await eventually(lambda: len(gateway.asked) == 3)

    play(story)


def test_a_client_of_the_newer_protocol_is_told_that_it_is_not_spoken() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for version in (0, 1):
            head = (68).to_bytes(2) + version.to_bytes(2) + (7).to_bytes(4)
            writer.write((12).to_bytes(4) + head + bytes(4))
            frame = await read(reader)
            assert frame[4:15] == (7).to_bytes(4) + b"\0" + bytes(4) + (35).to_bytes(2)
            assert b"group.protocol=classic" in frame

    assert play(story).told == ["ConsumerGroupHeartbeat of /127.0.0.1"] * 2


def shorten(turns: Turns) -> None:
    """Let each request take a whole turn."""
    took = turns.took
    turns.took = lambda seconds: took(seconds + 1)  # type: ignore[method-assign]


def test_a_client_with_many_requests_in_one_piece_lets_others_in_between() -> None:
    many = 50

    async def story(gateway: Gateway, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shorten(gateway.turns)
        gateway.pending = Pending(1_000, 1_000_000, gateway.stopped.append)
        _, other = await asyncio.open_connection("127.0.0.1", writer.get_extra_info("peername")[1])
        await eventually(lambda: len(gateway.connections) == 2)
        writer.write(b"".join(map(beat, range(many))))
        other.write(beat(1))
        await eventually(lambda: len(gateway.asked) == many + 1)
        others = [client is gateway.connections[1].client for client in gateway.clients]
        assert others.index(True) < 10, "the other client did not wait for all of them"
        other.close()
        await eventually(lambda: gateway.connections[1]._patience.ended_s is not None)
        gateway.connections[1].abort("client")

    play(story)


def test_answers_that_come_together_let_others_in_between() -> None:
    many = 20

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gateway.pending = Pending(1_000, 1_000_000, gateway.stopped.append)
        _, other = await asyncio.open_connection("127.0.0.1", writer.get_extra_info("peername")[1])
        await eventually(lambda: len(gateway.connections) == 2)
        writer.write(b"".join(leave(number, 1) for number in range(many)))
        await eventually(lambda: len(gateway.asked) == many)
        shorten(gateway.turns)
        for answer in gateway.asked[:many]:
            answer()
        # This client has waited for nothing yet, and is read before the others are answered.
        gateway.connections[1].data_received(beat(1))
        await eventually(lambda: len(gateway.asked) == many + 1)
        assert gateway.owed[-1] > many // 2
        for number in range(many):
            assert int.from_bytes((await read(reader))[4:8]) == number
        other.close()
        await eventually(lambda: gateway.connections[1]._patience.ended_s is not None)
        gateway.connections[1].abort("client")

    play(story)


def test_a_request_that_took_long_to_read_lets_others_in_before_it_is_asked() -> None:
    async def story(gateway: Gateway, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, other = await asyncio.open_connection("127.0.0.1", writer.get_extra_info("peername")[1])
        await eventually(lambda: len(gateway.connections) == 2)
        shorten(gateway.turns)
        first, second = gateway.connections
        first.data_received(leave(1, Limits.elements_alone + 1))
        second.data_received(beat(1))
        assert not gateway.asked, "both wait"
        await eventually(lambda: len(gateway.asked) == 2)
        assert gateway.clients == [second.client, first.client]
        for answer in gateway.asked:
            answer()
        for each in (other, writer):
            each.close()
        await eventually(lambda: len(gateway.reasons) == 2)

    play(story)


def test_a_long_head_of_a_produce_is_looked_at_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def acks(frame: bytes, version: int) -> int | None:
        looked.append(len(frame))
        return known(frame, version)

    known = codec.produce_acks
    monkeypatch.setattr(codec, "produce_acks", acks)
    message = ProduceRequest(version=9, transactional_id="t" * 400, acks=1, timeout_ms=1)
    frame = codec.encode_request(message, 1, "c")

    async def story(gateway: Gateway, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(frame), 5):
            writer.write(frame[start : start + 5])
            await writer.drain()
            await asyncio.sleep(0)
        from_gateway, to_gateway = await gateway.broker()
        assert await read(from_gateway) == frame
        to_gateway.close()

    play(story)
    assert all(2 * before <= after for before, after in itertools.pairwise(looked[:-1]))


def test_rights_are_asked_for_with_the_prefix_of_groups_also_for_one_that_comes_again() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gateway.accepts = True
        writer.write(beat(1))
        from_gateway, to_gateway = await gateway.broker()
        assert b"tenant-g" in await read(from_gateway)
        to_gateway.write(codec.encode_response(HeartbeatResponse(version=0, error_code=25), 0))
        await eventually(lambda: gateway.asked)
        writer.write(beat(2))
        await eventually(lambda: gateway.asked_again)
        to_gateway.close()

    play(story, Security(asks_rights=True, groups_prefix="tenant-"))


def test_what_names_a_topic_of_the_coordinators_is_answered_in_its_turn_or_ends_the_connection() -> None:
    kind = ProduceRequest.TopicProduceData
    entry = kind.PartitionProduceData(version=9, index=0, records=b"r" * 40_000)
    small, large = (
        ProduceRequest(
            version=9, acks=1, timeout_ms=1, topic_data=[kind(version=9, name="own", partition_data=it)]
        )
        for it in ([], [entry])
    )

    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(fetch(1) + codec.encode_request(small, 2, "c") + fetch(3))
        from_gateway, to_gateway = await gateway.broker()
        assert [await read(from_gateway) for _ in range(2)] == [fetch(1), fetch(3)]
        to_gateway.write(response(1) + response(3))
        assert [int.from_bytes((await read(reader))[4:8]) for _ in range(3)] == [1, 2, 3]
        writer.write(codec.encode_request(large, 4, "c"))
        assert await reader.read() == b""
        assert await from_gateway.read() == b""
        to_gateway.close()

    gateway = play(story, Security(own_topics=frozenset({"own"})))
    assert gateway.reasons == ["frame error"]
