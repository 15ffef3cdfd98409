"""Names that stand for brokers."""

from __future__ import annotations

import pytest

from group_coordinator.gateway.names import BOOTSTRAP, Names

NAMES = Names("Kafka.example.com", "broker-{node}.Kafka.example.com")


@pytest.mark.parametrize("node_id", [0, 7, 2**31 - 1])
def test_each_brokers_name_stands_for_it(node_id: int) -> None:
    name = NAMES.of(node_id)
    assert name == f"broker-{node_id}.Kafka.example.com"
    for asked in (name, name.upper(), f"{name}."):
        assert NAMES.stands_for(asked) == node_id


@pytest.mark.parametrize("asked", ["kafka.example.com", "KAFKA.EXAMPLE.COM", "kafka.example.com."])
def test_the_advertised_host_stands_for_any_broker(asked: str) -> None:
    assert NAMES.stands_for(asked) == BOOTSTRAP


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "localhost",
        "broker-.kafka.example.com",
        "broker-07.kafka.example.com",
        "broker--1.kafka.example.com",
        "broker-\u0667.kafka.example.com",
        "broker-7.kafka.example.com..",
        "broker-7.kafka.example.com.evil.com",
        "xbroker-7.kafka.example.com",
        "7",
        "broker-7",
        "7.kafka.example.com",
    ],
)
def test_other_names_stand_for_nobody(asked: str) -> None:
    assert NAMES.stands_for(asked) is None
