"""The settings of a gateway."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GatewaySettings"]


class GatewaySettings(NamedTuple):
    """Where a gateway listens, and which topics are the coordinator's."""

    host: str = "0.0.0.0"  # noqa: S104 - a gateway is there to be reached
    port: int = 19092
    """The bootstrap port. The ports behind it stand for one broker each: port + 1 + node id. 0: any ports."""
    advertised_host: str = "localhost"
    """The host that clients are told to connect to."""
    request_topic: str = "coordinator.requests"
    response_topics: tuple[str, ...] = ("coordinator.responses",)
    """Where the coordinator answers: one topic, and those of tenants."""
    groups_topic: str = "coordinator.groups"
    groups_prefix: str = ""
    """A text that the gateway puts before the ids of all groups; clients do not see it."""
    beats_linger_ms: int = 200
    commit_unknown_topics: bool = False
    """Whether commits for topics and partitions that do not exist are let pass."""
    rights: str = "auto"
    """Whether the brokers are asked what a client may do: on, off, or auto: where they have SASL or TLS."""

    def node_port(self, node_id: int) -> int:
        """The port that stands for this broker; 0 if any does."""
        return self.port + 1 + node_id if self.port else 0
