"""Ports over real sockets: how many are let in, TLS, and certificates that are replaced."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from group_coordinator.gateway import listeners as module
from group_coordinator.gateway import parties
from group_coordinator.gateway.certificates import Certificates
from group_coordinator.gateway.client import Client
from group_coordinator.gateway.errors import GatewayError
from group_coordinator.gateway.listeners import Listeners
from group_coordinator.gateway.metrics import GatewayMetrics
from group_coordinator.gateway.parties import Party, shown_host
from group_coordinator.gateway.settings import GatewaySettings
from tests.gateway.each_loop import each_loop, run  # noqa: F401 - a fixture
from tests.patience import PATIENCE_S, eventually
from tests.security.certificates import make_client_key

PASSWORD = "of-the-key"


class Echo(asyncio.Protocol):
    is_known, heard_s = True, 0.0

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._transport: Any = None
        self._reason = "client"
        self._host: Party | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.client = Client(shown_host(transport.get_extra_info("peername")[0]), 1, lambda go: go())
        self._host = self._listeners.admit(self)
        if self._host is None:
            self.abort("too many")

    def data_received(self, data: bytes) -> None:
        self.heard_s = time.monotonic()
        self._transport.write(data)

    def abort(self, reason: str) -> None:
        self._reason = reason
        self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._host is not None:
            self._host.connections.pop(self, None)
        self._listeners.left(self, self._reason)


class Door:
    def __init__(self, **settings: Any) -> None:
        self.settings = GatewaySettings(**{"gateway_listen": "127.0.0.1:0"} | settings)
        self.registry = CollectorRegistry()
        self.certificates = Certificates(self.settings) if self.settings.gateway_tls_certificate else None
        self.listeners = Listeners(self.settings, self.certificates, GatewayMetrics(self.registry))
        self.port = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Door]:
        bound = self.listeners.bind(0)
        self.port = bound.getsockname()[1]
        self.listeners.serve(bound, lambda _name: Echo(self.listeners))
        try:
            yield self
        finally:
            self.listeners.close()
            await eventually(lambda: not self.listeners.connections)

    def closed(self, reason: str) -> float:
        labels = {"reason": reason}
        return (
            self.registry.get_sample_value("group_coordinator_gateway_connections_closed_total", labels) or 0
        )

    async def enter(
        self, ends: ExitStack, host: str, context: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client of a host, which stays until the stack ends."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, local_addr=(host, 0)
        )
        ends.callback(writer.close)
        return reader, writer

    async def say(
        self, said: bytes, context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> tuple[bytes, str]:
        """What comes back, and the fingerprint of the certificate that was shown."""
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=context, local_addr=(host, 0)
            )
            try:
                writer.write(said)
                shown = writer.get_extra_info("ssl_object")
                of = hashlib.sha256(shown.getpeercert(binary_form=True)).hexdigest() if shown else ""
                return await reader.read(100), of
            finally:
                writer.close()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three PEM files, each with a certificate that is its own authority, and the key."""
    return [make_client_key(tmp_path_factory.mktemp("key"), PASSWORD).read_text() for _ in range(3)]


def of_client(key: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if key is not None:
        context.load_cert_chain(key, password=PASSWORD)
    return context


def test_many_may_come_at_once() -> None:
    """They do when a gateway beside this one is killed. More than wait in the queue would try again later."""

    async def story() -> None:
        async with Door().open() as door:
            assert (await door.say(b"hello"))[0] == b"hello"
            # Nobody is accepted meanwhile, as the loop stands still.
            there = [socket.create_connection(("127.0.0.1", door.port), timeout=2) for _ in range(200)]
            for each in there:
                each.close()

    run(story())


def test_a_small_answer_does_not_wait_for_the_client_to_have_taken_the_one_before() -> None:
    async def story() -> None:
        async with Door().open() as door:
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            writer.write(b"hello")
            assert await reader.read(100) == b"hello"
            (there,) = door.listeners.connections
            used = there._transport.get_extra_info("socket")
            goes_at_once.append(used.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

    goes_at_once: list[int] = []
    run(story())
    assert goes_at_once == [1]


@pytest.mark.parametrize("listen", ["[::]:0", ":::0", ":0"])
def test_the_address_of_all_networks_is_of_both_kinds(listen: str) -> None:
    async def story() -> None:
        async with Door(gateway_listen=listen).open() as door:
            for host in ("127.0.0.1", "::1"):
                reader, writer = await asyncio.open_connection(host, door.port)
                writer.write(b"hello")
                assert await reader.read(100) == b"hello"
                writer.close()

    run(story())


def test_a_host_that_has_fewer_gets_the_quietest_place_of_the_one_that_has_most() -> None:
    async def story() -> None:
        async with Door(gateway_max_connections=3).open() as door:
            there = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(3)]
            for (reader, writer), said in zip(there, (b"a", b"b", b"c"), strict=True):
                writer.write(said)
                assert await reader.read(100) == said
            there[0][1].write(b"again")
            assert await there[0][0].read(100) == b"again"
            assert (await door.say(b"hello", host="127.0.0.2"))[0] == b"hello"
            assert await there[1][0].read() == b"", "the quietest one has gone"
            await eventually(lambda: door.closed("too many") == 1)
            there[2][1].write(b"still")
            assert await there[2][0].read(100) == b"still"
            for _, writer in there:
                writer.close()

    run(story())


@pytest.mark.parametrize(
    "settings", [{"gateway_max_connections_per_host": 2}, {"gateway_max_connection_creation_rate": 2}]
)
def test_a_host_has_so_many_connections_and_others_have_theirs(
    settings: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Door(**settings).open() as door:
            there = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(2)]
            await eventually(lambda: len(door.listeners.connections) == 2)
            assert (await door.say(b""))[0] == b""
            await eventually(lambda: door.closed("too many") == 1)
            assert (await door.say(b"hello", host="127.0.0.2"))[0] == b"hello"
            for _, writer in there:
                writer.close()

    run(story())
    (said,) = caplog.messages
    assert said.startswith("1 connections are refused, such as one of /127.0.0.1: their host has as many")


def test_the_next_one_is_closed_and_the_one_after_a_place_is_free_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with Door(gateway_max_connections=2).open() as door:
            there = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(2)]
            await eventually(lambda: len(door.listeners.connections) == 2)
            for _ in range(3):
                assert (await door.say(b""))[0] == b""
            await eventually(lambda: door.closed("too many") == 3)
            there[0][1].close()
            await eventually(lambda: len(door.listeners.connections) == 1)
            assert (await door.say(b"hello"))[0] == b"hello"
            there[1][1].close()

    run(story())
    (said,) = caplog.messages
    assert said == (
        "1 connections are refused, such as one of /127.0.0.1: there are gateway.max.connections (2)"
    )


def test_new_connections_get_the_new_certificate_and_a_broken_one_is_not_taken(
    keys: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "gateway.pem"
    file.write_text(keys[0])
    caplog.set_level(logging.INFO)

    async def story() -> None:
        door = Door(gateway_tls_certificate=str(file), gateway_tls_key_password=PASSWORD)
        async with door.open():
            told, first = await door.say(b"hello", of_client())
            assert told == b"hello"
            old = await asyncio.open_connection("127.0.0.1", door.port, ssl=of_client())
            shown = []
            for text in ("broken", "broken again", keys[1]):
                file.write_text(text)
                for _ in range(2):
                    door.certificates.renew()
                shown.append((await door.say(b"hello", of_client()))[1])
            assert shown[:2] == [first, first]
            assert shown[2] != first
            old[1].write(b"still here")
            assert await old[0].read(100) == b"still here"
            old[1].close()

    run(story())
    said = [each for each in caplog.messages if "certificate" in each]
    assert [each.partition(",")[0] for each in said[:2]] == ["the certificate is not renewed"] * 2
    assert said[2:] == [f"the certificate is renewed from {file}"]


def test_a_client_has_to_show_a_certificate_if_there_is_an_authority_for_it(
    keys: list[str], tmp_path: Path
) -> None:
    gateway, known, unknown = (tmp_path / name for name in ("gateway.pem", "known.pem", "unknown.pem"))
    for file, text in zip((gateway, known, unknown), keys, strict=True):
        file.write_text(text)

    async def story() -> None:
        door = Door(
            gateway_tls_certificate=str(gateway),
            gateway_tls_key_password=PASSWORD,
            gateway_tls_client_ca=str(known),
        )
        async with door.open():
            assert (await door.say(b"hello", of_client(known)))[0] == b"hello"
            for refused in (of_client(), of_client(unknown)):
                # In TLS 1.3 a client learns of it when it reads, by an alert or by the end.
                with suppress(ssl.SSLError, ConnectionError):
                    assert (await door.say(b"hello", refused))[0] == b""
            await eventually(lambda: door.closed("handshake") == 2)

    run(story())


def test_a_handshake_that_does_not_end_is_ended_and_takes_a_place_until_then(
    keys: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gateway.pem"
    file.write_text(keys[0])
    monkeypatch.setattr(module, "_HANDSHAKE_S", 0.5)

    async def story() -> None:
        door = Door(
            gateway_tls_certificate=str(file),
            gateway_tls_key_password=PASSWORD,
            gateway_max_connections=1,
        )
        async with door.open():
            _, silent = await asyncio.open_connection("127.0.0.1", door.port)
            await eventually(lambda: door.listeners._handshakes)
            assert (await door.say(b""))[0] == b""
            await eventually(lambda: door.closed("too many") == 1)
            await eventually(lambda: door.closed("handshake"))
            assert (await door.say(b"hello", of_client()))[0] == b"hello"
            silent.close()

    run(story())


def tls_door(keys: list[str], tmp_path: Path, **settings: Any) -> Door:
    file = tmp_path / "gateway.pem"
    file.write_text(keys[0])
    return Door(gateway_tls_certificate=str(file), gateway_tls_key_password=PASSWORD, **settings)


def test_clients_in_a_handshake_take_the_places_of_their_host_and_not_those_of_others(
    keys: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parties, "_LOOK_S", 0.0)

    async def story() -> None:
        async with tls_door(keys, tmp_path, gateway_max_connections=3).open() as door:
            with ExitStack() as ends:
                innocent = [await door.enter(ends, "127.0.0.2", of_client()) for _ in range(2)]
                await door.enter(ends, "127.0.0.1")
                await eventually(lambda: door.listeners._handshakes)
                refused, _ = await door.enter(ends, "127.0.0.1")
                assert await refused.read() == b"", "its host has as many as another one would have then"
                for reader, writer in innocent:
                    writer.write(b"still here")
                    assert await reader.read(100) == b"still here"
                innocent[0][1].close()
                await eventually(lambda: len(door.listeners.connections) == 1)
                await door.enter(ends, "127.0.0.1")
                await eventually(lambda: len(door.listeners._handshakes) == 2)
                assert (await door.say(b"hello", of_client(), "127.0.0.3"))[0] == b"hello"
                assert door.closed("too many") == 2, "one was refused, and one in a handshake made room"
                assert len(door.listeners._handshakes) == 1

    run(story())


def test_a_host_is_the_same_at_a_port_for_both_kinds_of_addresses(keys: list[str], tmp_path: Path) -> None:
    async def story() -> None:
        door = tls_door(keys, tmp_path, gateway_listen="[::]:0", gateway_max_connections=2)
        async with door.open():
            with ExitStack() as ends:
                there = [await door.enter(ends, "127.0.0.1", of_client()) for _ in range(2)]
                refused, _ = await door.enter(ends, "127.0.0.1")
                assert await refused.read() == b"", "its host has most, and no other one has fewer"
                for reader, writer in there:
                    writer.write(b"still here")
                    assert await reader.read(100) == b"still here"

    run(story())


def test_clients_are_accepted_again_after_the_process_had_too_many_files(
    keys: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "gateway.pem"
    file.write_text(keys[0])
    monkeypatch.setattr(module, "_ACCEPT_AGAIN_S", 0.1)
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def story() -> None:
        door = Door(gateway_tls_certificate=str(file), gateway_tls_key_password=PASSWORD)
        async with door.open():
            assert (await door.say(b"hello", of_client()))[0] == b"hello"
            with socket.socket() as client:
                # Those that are open stay open.
                resource.setrlimit(resource.RLIMIT_NOFILE, (0, allowed[1]))
                client.connect(("127.0.0.1", door.port))
                await eventually(lambda: len(caplog.messages) >= 2)
                resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
                assert (await door.say(b"hello", of_client()))[0] == b"hello"

    try:
        run(story())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
    assert caplog.messages[0].startswith("no client can be accepted: ")


def test_a_port_may_be_shared_on_purpose_only() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            GatewayError, match=rf"cannot listen on 127\.0\.0\.1:{port}: .* gateway\.reuse\.port"
        ):
            Door().listeners.bind(port)
        Door(gateway_reuse_port=True).listeners.bind(port).close()
