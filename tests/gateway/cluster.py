"""Clusters of several brokers."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from kafka import KafkaAdminClient

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.gateway.ports import ports_in_a_row
from tests.patience import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kafka import TopicPartition


BrokerT = TypeVar("BrokerT", bound=EmbeddedBroker)


def another_of(
    directory: Path,
    first: EmbeddedBroker,
    node_id: int,
    more: Mapping[str, str] | None = None,
    kind: type[BrokerT] = EmbeddedBroker,
) -> BrokerT:
    """Another broker of the cluster of `first`, which is at `directory / "1"`. It is no controller.

    `more`: settings of its own.
    """
    settings = (directory / "1" / "server.properties").read_text().splitlines()
    voters = dict(line.split("=", 1) for line in settings)["controller.quorum.voters"]
    port = ports_in_a_row(1)
    listener = f"PLAINTEXT://127.0.0.1:{port}"
    overrides = {
        "process.roles": "broker",
        "node.id": str(node_id),
        "listeners": listener,
        "advertised.listeners": listener,
        "controller.quorum.voters": voters,
        **(more or {}),
    }
    return kind(directory / str(node_id), port=port, overrides=overrides, cluster_id=first.cluster_id)


def hiding_listeners(port: int) -> dict[str, str]:
    """Settings with a listener for clients at the first of three ports."""
    clients, brokers, controllers = range(port, port + 3)
    listeners = f"CLIENTS://127.0.0.1:{clients},PLAINTEXT://127.0.0.1:{brokers}"
    return {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controllers}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controllers}",
    }


def replicate(servers: str, partition: TopicPartition, nodes: list[int]) -> None:
    """Have these brokers, and no others, hold the partition; `servers` know all of them."""
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.alter_partition_reassignments({partition: nodes})

        def in_sync() -> list[int]:
            (topic,) = admin.describe_topics([partition.topic])
            return next(
                sorted(it["isr_nodes"])
                for it in topic["partitions"]
                if it["partition_index"] == partition.partition
            )

        wait_for(lambda: in_sync() == nodes, said=in_sync)
