"""Brokers that are told apart by the names that clients ask for, over real sockets and TLS."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from group_coordinator.gateway.addresses import Address, Serving
from group_coordinator.gateway.brokers import Brokers
from group_coordinator.gateway.certificates import Certificates, foreign_names_ignored
from group_coordinator.gateway.client import Client
from group_coordinator.gateway.endpoints import Endpoints
from group_coordinator.gateway.errors import GatewayError
from group_coordinator.gateway.listeners import Listeners
from group_coordinator.gateway.metrics import GatewayMetrics
from group_coordinator.gateway.settings import GatewaySettings
from tests.gateway.each_loop import each_loop, run  # noqa: F401 - a fixture
from tests.gateway.ports import ports_in_a_row
from tests.gateway.test_listeners import PASSWORD, of_client
from tests.patience import PATIENCE_S, eventually
from tests.security.certificates import make_client_key

HOST, NODES = "kafka.example.com", "broker-{node}.kafka.example.com"
OWN = {node_id: Address(f"own-{node_id}", 9092) for node_id in (1, 2)}


class Teller(asyncio.Protocol):
    """Tells a client the brokers that can serve it."""

    def __init__(self, house: House, _node_id: int, serving: Callable[[], Serving]) -> None:
        self._house = house
        self._told = " ".join(f"{node_id} {host}" for node_id, (host, _) in serving())

    def connection_made(self, transport: Any) -> None:
        self.client = Client("/127.0.0.1", 1, lambda go: go())
        self._host = self._house.listeners.admit(self)
        transport.write(self._told.encode())
        transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        self._host.connections.pop(self)
        self._house.listeners.left(self, "client")


class House:
    """The places of a gateway whose brokers are `OWN`."""

    def __init__(self, **settings: Any) -> None:
        self.settings = GatewaySettings(**settings)
        self.registry = CollectorRegistry()
        self.brokers = Brokers()
        self.brokers.replace(OWN, 0)
        certificates = Certificates(self.settings) if self.settings.gateway_tls_certificate else None
        self.listeners = Listeners(self.settings, certificates, GatewayMetrics(self.registry))
        self.strangers: list[None] = []
        self.endpoints = Endpoints(
            self.settings,
            self.brokers,
            self.listeners,
            lambda *each: Teller(self, *each),
            lambda: self.strangers.append(None),
        )

    async def close(self) -> None:
        # A listener that has not begun yet would not close its port.
        for _ in range(3):
            await asyncio.sleep(0)
        self.listeners.close()
        await asyncio.gather(*self.listeners._tasks, return_exceptions=True)
        await eventually(lambda: not self.listeners.connections)


def named_house(certificate: str) -> House:
    return House(
        gateway_listen="127.0.0.1:0",
        gateway_advertised_host=HOST,
        gateway_advertised_nodes=NODES,
        gateway_tls_certificate=certificate,
        gateway_tls_key_password=PASSWORD,
    )


async def served_by(port: int, name: str | None, context: ssl.SSLContext | None) -> str:
    """The brokers that can serve a client which asks for this name; "" if it is turned away."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname=name
            )
        except (ConnectionError, ssl.SSLError):
            return ""
        try:
            return (await reader.read(100)).decode()
        except ConnectionError:
            return ""
        finally:
            writer.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_client_key(tmp_path_factory.mktemp("key"), PASSWORD))


def test_a_name_leads_to_its_broker_and_a_foreign_one_nowhere(
    certificate: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    house = named_house(certificate)

    async def story() -> None:
        host, port = house.endpoints.open()
        assert host == HOST
        assert dict(house.endpoints.addresses) == {
            1: Address("broker-1.kafka.example.com", port),
            2: Address("broker-2.kafka.example.com", port),
        }
        for context in (of_client(), _older(of_client())):
            assert await served_by(port, "broker-1.kafka.example.com", context) == "1 own-1"
            assert await served_by(port, "BROKER-2.kafka.example.com", context) == "2 own-2"
            house.brokers.connected(2, 0, is_connected=True)
            assert await served_by(port, HOST, context) in ("1 own-1 2 own-2", "2 own-2 1 own-1")
            house.brokers.connected(2, 0, is_connected=False)
            assert await served_by(port, HOST, context) == "1 own-1"
            caplog.clear()
            for name in ("broker-3.kafka.example.com", "other.example.com", ""):
                assert await served_by(port, name, context) == ""
            about = "and not for gateway.advertised.host or a name of gateway.advertised.nodes"
            assert [each.partition(" fails: ")[2] for each in caplog.messages] == [
                "it asks for 'broker-3.kafka.example.com', and there is no broker 3",
                f"it asks for 'other.example.com', {about}",
                f"it asks for no name (SNI), {about}",
            ]
        there = house.endpoints.address_of(1, OWN[1])
        assert (there, house.strangers) == (("broker-1.kafka.example.com", port), [])
        own = Address("own-3", 9092)
        assert house.endpoints.address_of(3, own) is None, "an answer to a client makes nobody a broker"
        assert house.endpoints.address_of(1, own) == there, "nor does it move one"
        assert len(house.strangers) == 2
        house.brokers.replace({**OWN, 3: own}, 0)
        house.endpoints.settle()
        assert house.endpoints.address_of(3, own) == ("broker-3.kafka.example.com", port)
        assert await served_by(port, "broker-3.kafka.example.com", of_client()) == "3 own-3"
        await house.close()

    run(story())
    labels = {"reason": "handshake"}
    closed = house.registry.get_sample_value("group_coordinator_gateway_connections_closed_total", labels)
    assert closed == 6


def test_a_name_that_is_no_text_fails_the_handshake_with_one_line(
    certificate: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    printed: list[Any] = []
    another: Any = SimpleNamespace(exc_value=ValueError())
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    house = named_house(certificate)
    # A client's first bytes, with a name that no client would send.
    sent = ssl.MemoryBIO()
    client = of_client().wrap_bio(ssl.MemoryBIO(), sent, server_hostname=HOST)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = sent.read().replace(HOST.encode(), b"\xff" + HOST[1:].encode())

    async def story() -> None:
        _, port = house.endpoints.open()
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(hello)
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
        await eventually(lambda: len(caplog.messages) == 1)
        await house.close()

    with foreign_names_ignored():
        run(story())
        sys.unraisablehook(another)
    assert caplog.messages[0].startswith("the TLS handshake of 127.0.0.1 fails: ")
    assert printed == [another]


def _older(context: ssl.SSLContext) -> ssl.SSLContext:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def test_ports_that_clients_are_told_are_not_those_that_are_listened_on() -> None:
    port = ports_in_a_row(4)
    house = House(
        gateway_listen=f"127.0.0.1:{port}",
        gateway_advertised_host=HOST,
        gateway_advertised_port=443,
        gateway_node_ports=2,
    )

    async def story() -> None:
        assert house.endpoints.open() == (HOST, 443)
        assert dict(house.endpoints.addresses) == {1: Address(HOST, 445)}
        assert await served_by(port + 2, None, None) == "1 own-1"
        assert await served_by(port, None, None) == "1 own-1", "the other one has no port"
        await house.close()

    run(story())


def test_without_a_place_for_any_broker_it_ends() -> None:
    async def story() -> None:
        house = House(gateway_listen=f"127.0.0.1:{ports_in_a_row(1)}", gateway_node_ports=1)
        with pytest.raises(GatewayError, match=r"^no broker has a port: "):
            house.endpoints.open()
        await house.close()

    run(story())
