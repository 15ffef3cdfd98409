"""The brokers that a gateway offers, without Kafka: what is told of them is scripted."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from kafka.errors import KafkaTimeoutError
from prometheus_client import CollectorRegistry

from group_coordinator.gateway import service as module
from group_coordinator.gateway.addresses import Address
from group_coordinator.gateway.groups import ListedGroup
from group_coordinator.gateway.health import GatewayHealth
from group_coordinator.gateway.limits import Limits
from group_coordinator.gateway.metrics import GatewayMetrics
from group_coordinator.gateway.service import Gateway
from group_coordinator.gateway.settings import GatewaySettings
from tests.gateway.ports import ports_in_a_row
from tests.patience import eventually


class Admin:
    """Tells what the script says, again and again the last of it."""

    def __init__(self, *script: Any) -> None:
        self._script = list(script)

    def describe_cluster(self) -> dict[str, Any]:
        told = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(told, Exception):
            raise told
        return {"brokers": [{"node_id": node_id, "host": f"b{node_id}", "port": 9092} for node_id in told]}


def offered(gateway: Gateway, *node_ids: int) -> list[tuple[int, int]]:
    """Node ids and ports, as a client is told when these brokers are there."""
    named = {each: gateway.address_of(each, Address(f"b{each}", 9092)) for each in node_ids}
    return [(node_id, at.port) for node_id, at in named.items() if at is not None]


def play(node_ports: int, story: Callable[[Gateway, int], Any]) -> CollectorRegistry:
    registry = CollectorRegistry()

    async def played() -> None:
        port = ports_in_a_row(4)
        settings = GatewaySettings(gateway_listen=f"127.0.0.1:{port}", gateway_node_ports=node_ports)
        gateway = Gateway(settings, {}, GatewayMetrics(registry), GatewayHealth())
        try:
            await story(gateway, port)
        finally:
            gateway._look(0)
            for _ in range(3):
                # A listener that has not begun yet would not close its port.
                await asyncio.sleep(0)
            gateway._listeners.close()
            await asyncio.gather(*gateway._listeners._tasks, return_exceptions=True)

    asyncio.run(played())
    return registry


def test_a_broker_beyond_the_ports_is_left_out_logged_once_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(gateway: Gateway, port: int) -> None:
        gateway._brokers.replace({each: Address(f"b{each}", 9092) for each in range(3)}, 0)
        gateway._endpoints.settle()
        for _ in range(2):
            assert offered(gateway, 0, 1, 2) == [(0, port + 1), (1, port + 2)]
        assert gateway._brokers.reachable == (0, 1)

    registry = play(2, story)
    assert registry.get_sample_value("group_coordinator_gateway_brokers_left_out") == 1
    assert caplog.messages == [
        "broker 2 is not offered: its port would be beyond the 2 of gateway.node.ports"
    ]


def test_brokers_come_and_go_and_a_port_that_is_taken_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_REFRESH_EVERY_S", 0.02)
    monkeypatch.setattr(module, "_REFRESH_LEAST_S", 0.01)

    async def story(gateway: Gateway, port: int) -> None:
        async def until(*node_ids: int) -> None:
            await eventually(lambda: gateway._brokers.reachable == node_ids)

        with socket.create_server(("127.0.0.1", port + 2)):
            admin = Admin([0, 1], [], KafkaTimeoutError("away"), [0, 1])
            asking = asyncio.ensure_future(gateway._keep_brokers(admin))
            await until(0)
            assert offered(gateway, 0, 1) == [(0, port + 1)]
        await until(0, 1)
        assert offered(gateway, 0, 1) == [(0, port + 1), (1, port + 2)]
        admin._script = [[1, 3]]
        await until(1, 3)
        asking.cancel()

    play(10, story)


def test_an_answer_that_names_a_broker_that_is_not_known_has_the_gateway_ask_for_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "_REFRESH_LEAST_S", 0)
    monkeypatch.setattr(module, "_REFRESH_EVERY_S", 3_600)

    async def story(gateway: Gateway, port: int) -> None:
        admin = Admin([0], [0, 1])
        asking = asyncio.ensure_future(gateway._keep_brokers(admin))
        assert offered(gateway, 0, 1) == []
        await eventually(lambda: gateway._brokers.reachable == (0,))
        assert offered(gateway, 0) == [(0, port + 1)]
        assert not gateway._strangers.is_set()
        assert offered(gateway, 0, 1) == [(0, port + 1)]
        await eventually(lambda: gateway._brokers.reachable == (0, 1))
        assert offered(gateway, 0, 1) == [(0, port + 1), (1, port + 2)]
        asking.cancel()

    play(10, story)
    assert caplog.messages == ["broker 0 is at b0:9092", "broker 1 is at b1:9092"]


def test_idle_connections_are_looked_for_now_and_then_and_often_while_none_is_read() -> None:
    async def story(gateway: Gateway, _port: int) -> None:
        looked: list[float] = []
        connection = Mock(expire=looked.append)
        gateway._listeners.connections.add(connection)
        for now_s in (10, 11, 14, 15, 16):
            gateway._look(now_s)
        assert looked == [10, 15]
        gateway.pending.stopped[connection] = None
        gateway._look(17)
        gateway._look(18)
        gateway.pending.stopped.clear()
        gateway._look(19)
        assert looked == [10, 15, 17, 18]
        gateway._listeners.connections.clear()

    play(1, story)


def test_groups_take_places_also_if_they_are_told_before_the_way_to_the_log_is_open() -> None:
    async def story(gateway: Gateway, _port: int) -> None:
        gateway._rules.shares.most = 2
        gateway._groups_changed([(each, ListedGroup("Empty", ""), None) for each in "ab"], True)
        assert not gateway._rules.shares.may_begin("c", "alice", 0)
        assert gateway.largest_frame == Limits.whole_frame

    play(1, story)


def test_no_frame_is_larger_than_what_may_be_unfinished() -> None:
    settings = GatewaySettings(gateway_max_unfinished_bytes=2_000_000)
    gateway = Gateway(settings, {}, GatewayMetrics(CollectorRegistry()), GatewayHealth())
    assert gateway.largest_frame == 2_000_000


def test_a_user_with_all_its_connections_may_log_in_again_on_one_of_them() -> None:
    """A client does so before its session at the broker is over (KIP-368)."""
    settings = GatewaySettings(gateway_max_connections_per_principal=2)
    gateway = Gateway(settings, {}, GatewayMetrics(CollectorRegistry()), GatewayHealth())
    gateway._local = Mock()
    first, second, third = (Mock() for _ in range(3))
    for each in (first, second, first, third):
        gateway.logged_in(each, "alice")
    assert [each.abort.called for each in (first, second, third)] == [False, False, True]
