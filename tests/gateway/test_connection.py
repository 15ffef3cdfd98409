"""Connections over real sockets, with a scripted broker and answers that come when a test says so.

The rules of what they carry are tested in `test_conversation.py`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from group_coordinator.gateway import codec
from group_coordinator.gateway.beat_kinds import Verdict
from group_coordinator.gateway.connection import ClientConnection
from group_coordinator.gateway.conversation import Conversation
from group_coordinator.gateway.limits import Limits, Pending
from group_coordinator.gateway.security import Security
from tests.gateway.each_loop import each_loop, run  # noqa: F401 - a fixture
from tests.gateway.talks import (
    ALIVE,
    GRANTED,
    MOST_PENDING,
    PLAIN,
    REQUEST_RATE,
    SASL,
    SHARE,
    ScriptedGateway,
    accepted,
    asks_for_life,
    authenticate,
    authenticated,
    beat,
    fetch,
    handshake,
    leave,
    response,
)
from tests.gateway.test_listeners import PASSWORD
from tests.gateway.test_listeners import of_client as client_of_tls
from tests.patience import PATIENCE_S, eventually
from tests.security.certificates import make_client_key


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


class Gateway(ScriptedGateway):
    """The same with ports, and a broker behind it."""

    def __init__(self, security: Security = PLAIN, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(lambda function: asyncio.get_running_loop().call_soon(function), time.monotonic)
        self._security, self._tls = security, tls
        self.connection: ClientConnection
        self.conversation: Conversation
        """The newest one."""
        self.brokers: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.serving: list[tuple[int, Any]] = []
        """The brokers that can serve a client, in that order. This one is 1."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self.brokers.put((reader, writer))

        loop = asyncio.get_running_loop()
        broker = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=self._tls)
        self.serving.append((1, broker.sockets[0].getsockname()))

        def enter() -> ClientConnection:
            self.connection = ClientConnection(self, 1, lambda: self.serving, self._security)
            self.conversation = self.connection.conversation
            self.conversations.append(self.conversation)
            return self.connection

        server = await loop.create_server(enter, "127.0.0.1", 0, ssl=self._tls)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            broker.close()

    def has_lost_a_client(self) -> bool:
        """Whether a client has gone. One that is still owed something may only have closed its side."""
        for each in self.conversations:
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
                for each in gateway.conversations:
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
        assert gateway.held_up_for == [gateway.conversation.client] * 2
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
    assert connection.conversation.client.host == shown


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
        connection = gateway.connection
        assert Limits.unwritten < held(connection._transport) <= MOST_HELD
        assert gateway.conversation._slots.take() == [], "nothing waits beside that"
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
        upstream = gateway.connection._upstream
        assert upstream is not None
        assert Limits.unwritten < held(upstream._transport) <= MOST_HELD
        assert gateway.unread.total == held(upstream._transport)
        to_gateway.transport.abort()

    play(story)


def test_versions_are_those_that_are_offered_by_the_broker_and_here() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        entry = ApiVersionsResponse.ApiVersion
        other = await asyncio.open_connection("127.0.0.1", writer.get_extra_info("peername")[1])
        # While brokers are upgraded, one of them offers more than the other.
        for (of_client, to_gateway), newest, offered in ((other, 7, 7), ((reader, writer), 50, 9)):
            keys = [entry(version=2, api_key=key, min_version=0, max_version=newest) for key in (8, 76)]
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


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_client_that_goes_while_no_client_is_read_is_noticed(is_plain: bool, tmp_path: Path) -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(map(beat, range(MOST_PENDING))))
        await eventually(lambda: gateway.stopped)
        writer.write(beat(99))
        gateway.conversation.expire(time.monotonic())
        assert gateway.pending.stopped
        # With TLS, close() would wait for the gateway's word.
        writer.transport.abort()

        def has_gone() -> list[str]:
            gateway.conversation.expire(time.monotonic())
            return gateway.reasons

        await eventually(has_gone)
        assert (gateway.pending.count, gateway.pending.stopped) == (0, {})

    ends = () if is_plain else (Security(tls=client_of_tls()), server_of_tls(tmp_path))
    gateway = play(story, *ends)
    assert gateway.reasons == ["client"]
    assert len(gateway.asked) == SHARE


# -- logins --------------------------------------------------------------------------------------------


def test_a_login_takes_its_turn_and_nothing_is_answered_before_the_broker_says_so() -> None:
    async def story(gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(authenticate(1) + beat(2) + fetch(3) + authenticate(4) + fetch(5))
        from_gateway, to_gateway = await gateway.broker()
        assert await read(from_gateway) == authenticate(1)
        to_gateway.write(authenticated(1))
        assert asks_for_life(await read(from_gateway))
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
        assert gateway.held_up_for == [gateway.conversation.client]
        gateway.asked_again[0](Verdict(27))
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
        to_gateway.write(GRANTED)
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


def test_a_client_with_many_requests_in_one_piece_lets_others_in_between() -> None:
    many = 50

    async def story(gateway: Gateway, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        took = gateway.turns.took
        # Each request takes a whole turn.
        gateway.turns.took = lambda seconds: took(seconds + 1)  # type: ignore[method-assign]
        gateway.pending = Pending(1_000, 1_000_000, gateway.stopped.append)
        _, other = await asyncio.open_connection("127.0.0.1", writer.get_extra_info("peername")[1])
        await eventually(lambda: len(gateway.conversations) == 2)
        writer.write(b"".join(map(beat, range(many))))
        other.write(beat(1))
        await eventually(lambda: len(gateway.asked) == many + 1)
        others = [client is gateway.conversations[1].client for client in gateway.clients]
        assert others.index(True) < 10, "the other client did not wait for all of them"
        other.close()
        await eventually(lambda: gateway.conversations[1]._patience.ended_s is not None)
        gateway.conversations[1].abort("client")

    play(story)
