"""Clusters of several brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.gateway.ports import ports_in_a_row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def another_of(
    directory: Path, first: EmbeddedBroker, node_id: int, more: Mapping[str, str] | None = None
) -> EmbeddedBroker:
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
    return EmbeddedBroker(
        directory / str(node_id), port=port, overrides=overrides, cluster_id=first.cluster_id
    )
