"""A second broker, for what one alone cannot show."""

from __future__ import annotations

from pathlib import Path

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.gateway.ports import ports_in_a_row


def second_of(first: EmbeddedBroker, directory: Path) -> EmbeddedBroker:
    """Another broker of the same cluster. It has no controller of its own."""
    given = dict(
        line.split("=", 1) for line in (directory / "1" / "server.properties").read_text().splitlines()
    )
    meta = (directory / "1" / "data" / "meta.properties").read_text().splitlines()
    (cluster,) = (line for line in meta if line.startswith("cluster.id="))
    data = directory / "2" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text(f"version=1\n{cluster}\nnode.id=2\n")
    port = ports_in_a_row(1)
    listener = f"PLAINTEXT://127.0.0.1:{port}"
    overrides = {
        "process.roles": "broker",
        "node.id": "2",
        "listeners": listener,
        "advertised.listeners": listener,
        "controller.quorum.voters": given["controller.quorum.voters"],
    }
    return EmbeddedBroker(directory / "2", port=port, overrides=overrides)
