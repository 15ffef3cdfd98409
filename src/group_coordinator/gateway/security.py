"""The security of a gateway's connections to the brokers, its own ones and those of its clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from group_coordinator.jobs.tls import tls_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping


class Security(NamedTuple):
    """The demands of the brokers on each connection."""

    tls: ssl.SSLContext | None = None
    """None: plain text."""
    has_sasl: bool = False
    """Whether each client has to log in at its broker, before anything is answered."""
    asks_rights: bool = False
    """Whether the brokers are asked what a client may do."""
    groups_prefix: str = ""
    """A text before the ids of groups in the rights that they are asked for."""
    own_topics: frozenset[str] = frozenset()
    """The coordinator's topics, if the brokers take a client that uses them for the gateway."""


def security_of(
    kafka_config: Mapping[str, Any],
    rights: str,
    groups_prefix: str = "",
    own_topics: frozenset[str] = frozenset(),
) -> Security:
    """The security that kafka-python's settings name. `rights`: on, off, or auto: where there is any.

    `own_topics`: the coordinator's.

    Raises OSError (`ssl.SSLError` is one) if a file cannot be used.
    """
    protocol = kafka_config.get("security_protocol", "PLAINTEXT")
    return Security(
        tls=tls_context(kafka_config) if protocol.endswith("SSL") else None,
        has_sasl=protocol.startswith("SASL"),
        asks_rights=protocol != "PLAINTEXT" if rights == "auto" else rights == "on",
        groups_prefix=groups_prefix,
        own_topics=frozenset() if protocol.startswith("SASL") else own_topics,
    )
