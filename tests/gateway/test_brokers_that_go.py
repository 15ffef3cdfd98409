"""Brokers of a cluster go, come back and join, and the members of groups notice nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest

from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.gateway import codec
from group_coordinator.gateway.addresses import coordinator_of, hash_of
from group_coordinator.gateway.apis import OfferedVersions, offered
from tests.commands.job import Job
from tests.gateway.clients import Librdkafka, kafka_python, polling
from tests.gateway.cluster import another_of
from tests.gateway.conftest import start_gateway
from tests.gateway.test_clients import ask
from tests.patience import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.verify]

TOPIC = "brokers"
PARTITIONS = 6
NEWER = {"unstable.api.versions.enable": "true"}
"""For a broker that offers versions which the others do not."""
_METADATA_VERSION, _FIND_VERSION, _API_VERSIONS_VERSION = 9, 3, 2


def brokers(address: str) -> dict[int, str]:
    """The addresses of the brokers that a client is told of."""
    message = MetadataRequest(version=_METADATA_VERSION, topics=[])
    told = codec.decode_response(3, _METADATA_VERSION, ask(address, message))
    return {each.node_id: f"{each.host}:{each.port}" for each in told.brokers}


def coordinator(address: str, group: str) -> int:
    """The node that a client is told to ask about a group."""
    message = FindCoordinatorRequest(version=_FIND_VERSION, key=group)
    return int(codec.decode_response(10, _FIND_VERSION, ask(address, message)).node_id)


def are_told(address: str, groups: list[str], nodes: set[int]) -> bool:
    """Whether clients are told of these brokers, and of no coordinator but these."""
    return brokers(address).keys() == nodes and {coordinator(address, group) for group in groups} <= nodes


def versions(address: str) -> list[OfferedVersions]:
    """The versions that a client is offered."""
    told = codec.decode_response(
        18, _API_VERSIONS_VERSION, ask(address, ApiVersionsRequest(version=_API_VERSIONS_VERSION))
    )
    return [OfferedVersions(each.api_key, each.min_version, each.max_version) for each in told.api_keys]


def group_at(node_id: int) -> str:
    """A group whose coordinator is said to be this one of the first two brokers."""
    return next(
        group
        for group in map("group-{}".format, count())
        if coordinator_of(hash_of(group), [1, 2]) == node_id
    )


def test_groups_go_on_while_brokers_go_and_come(tmp_path: Path, heard: bytearray) -> None:
    groups = [group_at(1), group_at(2)]
    with ExitStack() as stack:
        first = stack.enter_context(EmbeddedBroker(tmp_path / "1"))
        # The coordinator's own topics are at the broker that stays.
        job = Job(first.bootstrap_servers, tmp_path, "brokers")
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        second = stack.enter_context(another_of(tmp_path, first, 2))
        with closing(KafkaAdminClient(bootstrap_servers=first.bootstrap_servers)) as admin:
            wait_for(lambda: len(admin.describe_cluster()["brokers"]) == 2)
            replicas = {each: [1 + each % 2, 2 - each % 2] for each in range(PARTITIONS)}
            admin.create_topics([NewTopic(TOPIC, -1, -1, replica_assignments=replicas)])
        heard.clear()
        process = start_gateway(tmp_path, first.bootstrap_servers, job.topics)
        stack.callback(process.kill)
        address = process.wait_for("clients find the gateway at ")
        wait_for(lambda: brokers(address).keys() == {1, 2})
        assert [coordinator(address, group) for group in groups] == [1, 2]
        config: dict[str, Any] = {"session_timeout_ms": 30_000, "metadata_max_age_ms": 1_000}
        in_c = [
            Librdkafka(address, [TOPIC], group, partition_assignment_strategy="range", **c_config(config))
            for group in groups
            for _ in range(2)
        ]
        in_python = [kafka_python(address, [TOPIC], group, **config) for group in groups]
        for each in (*in_c, *in_python):
            stack.callback(each.close)
        until = polling(*in_c, *in_python)
        until(lambda: {len(each.assignment()) for each in (*in_c, *in_python)} == {2})
        moves = [list(each.moves) for each in in_c]

        def all_go_on() -> None:
            """Records are written, members read them and commit, and no partition has moved."""
            before = [len(each.read) for each in in_c]
            with closing(KafkaProducer(bootstrap_servers=address, acks="all")) as producer:
                for partition in range(PARTITIONS):
                    producer.send(TOPIC, b"x", partition=partition)
                producer.flush()
            until(lambda: all(len(each.read) >= read + 2 for each, read in zip(in_c, before, strict=True)))
            for member in in_c:
                member.consumer.commit(asynchronous=False)
            for other in in_python:
                other.commit()
            assert [each.moves for each in in_c] == moves

        def told(*nodes: int) -> Callable[[], bool]:
            return lambda: are_told(address, groups, set(nodes))

        all_go_on()
        second.stop()
        until(told(1))
        all_go_on()
        second.start()
        third = stack.enter_context(another_of(tmp_path, first, 3, NEWER))
        until(told(1, 2, 3))
        all_go_on()
        through = brokers(address)
        of_brokers = [versions(each.bootstrap_servers) for each in (first, second, third)]
        assert [sorted(versions(through[node])) for node in (1, 2, 3)] == [
            sorted(offered(each)) for each in of_brokers
        ]
        assert of_brokers[0] == of_brokers[1] != of_brokers[2]
        check_leaks(heard, first, second, third)


def check_leaks(heard: bytearray, *brokers: EmbeddedBroker) -> None:
    """No byte that kafka-python has received names a broker's own port."""
    for broker in brokers:
        port = broker.bootstrap_servers.rpartition(":")[2]
        assert int(port).to_bytes(4) not in heard
        assert port.encode() not in heard


def c_config(config: dict[str, Any]) -> dict[str, Any]:
    """The same settings by librdkafka's names."""
    return {
        name.replace("metadata_max_age", "topic_metadata_refresh_interval"): it for name, it in config.items()
    }
