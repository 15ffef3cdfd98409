"""The settings of a gateway, beside those that all jobs have."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec

from group_coordinator.gateway.names import NODE, Names
from group_coordinator.jobs.hosts import host_of
from group_coordinator.jobs.patterns import check
from group_coordinator.jobs.settings import JobSettings, Port, Positive

_MOST_PORT = 2**16 - 1
_NotNegative = Annotated[int, msgspec.Meta(ge=0)]
_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
# The last label of a name is no number: that would be an address.
_HOST_NAME = re.compile(rf"(?:{_LABEL}\.)+(?!\d+$){_LABEL}", re.IGNORECASE)


class Listen(NamedTuple):
    """The address of the bootstrap port; port 0 is any free one, for the brokers' ports as well."""

    host: str
    port: int


class GatewaySettings(JobSettings, frozen=True, kw_only=True):
    """Settings of `gateway`. Sizes in bytes, times in ms."""

    # One file may be for a page that shows both as well.
    SIDES: ClassVar[tuple[str, ...]] = ("coordinator", "both")

    gateway_listen: str = "0.0.0.0:19092"
    """HOST:PORT that clients use as bootstrap server. The port of a broker is this one + 1 + its node id."""
    gateway_node_ports: Positive = 1_000
    """Ports behind the bootstrap port that stand for brokers. One with a higher node id is not offered."""
    gateway_advertised_host: str = "localhost"
    """Host that clients are told to connect to."""
    gateway_advertised_port: Annotated[int, msgspec.Meta(ge=0, le=_MOST_PORT)] = 0
    """Port that clients are told in place of gateway.listen's; those of brokers follow it. 0: the same."""
    gateway_advertised_nodes: str = ""
    """Name of each broker, with {node} for its node id. If set, all brokers are at one port (SNI)."""
    gateway_reuse_port: bool = False
    """Share the ports with other gateways of this machine, among which the system spreads connections."""
    gateway_metrics_port: Port = 9467
    """Port of the gateway's Prometheus endpoint; 0: any free one, -1: none."""

    gateway_tls_certificate: str = ""
    """PEM file with the gateway's certificate and those that signed it. Empty: clients use plain text."""
    gateway_tls_key: str = ""
    """PEM file with the certificate's key; empty: it is in the file of the certificate."""
    gateway_tls_key_password: str = ""
    """Password of the key, if it is encrypted."""
    gateway_tls_client_ca: str = ""
    """PEM file with authorities; if set, a client has to show a certificate that one of them has signed."""

    gateway_beats_linger_ms: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1_000
    """Time that heartbeats wait for those of other members at most; a tenth of a second if a later request of
    their client waits for them, or their group rebalances."""
    gateway_groups_prefix: str = ""
    """A text that the gateway puts before the ids of all groups; clients do not see it."""
    gateway_groups_brokers: str = ""
    """Ids of the groups that stay with the brokers' own coordinator, written as those of `lag.groups`. Empty:
    none. As `gateway.groups.brokers.file` it is read again when the file changes."""
    gateway_guard: bool = False
    """Keep members out of the brokers' groups of those that are here, if the brokers know them as well. It
    needs Read on these groups."""
    gateway_commit_unknown_topics: bool = False
    """Whether commits for topics and partitions that do not exist are let pass."""
    gateway_rights: Literal["auto", "on", "off"] = "auto"
    """Whether the brokers are asked what a client may do; auto: where they have SASL or TLS."""
    gateway_allow_everyone: bool = False
    """Let all clients be the gateway's own user, where brokers have TLS and no SASL. Not needed if clients
    have to show certificates."""
    gateway_allow_plaintext_passwords: bool = False
    """Take logins in plain text, although the brokers take them by TLS only."""
    gateway_max_connections: Positive = 10_000
    """Clients that may be connected. The next one is closed; or in its place a quiet one of the host
    that has most, if its own host has fewer."""
    gateway_max_connections_per_host: _NotNegative = 0
    """Clients of one host that may be connected; 0: any number."""
    gateway_max_connections_per_principal: _NotNegative = 0
    """Clients that may be connected after they have logged in as the same user; 0: any number."""
    gateway_max_connection_creation_rate: _NotNegative = 0
    """Connections that one host may make in a second, more are closed; 0: any number."""
    gateway_max_request_rate: _NotNegative = 0
    """Requests of groups, without those that only say that a member is alive, that one user may send in a
    second, or one host where clients do not log in; 0: any number. A client that sends more is told so
    (throttle_time_ms), and waits."""
    gateway_max_unfinished_bytes: Positive = 64_000_000
    """Bytes of unfinished group requests of all clients together. Beyond that the connection whose
    request has been unfinished longest is closed."""
    gateway_max_unread_bytes: Positive = 1_000_000_000
    """Bytes that are kept because clients or brokers do not read them, or because an earlier response is
    awaited, of all clients together. Beyond that the connection that keeps most is closed."""
    gateway_max_waiting: Positive = 100_000
    """Requests that may wait for answers. A client that has more of them than are free is not read, or all
    clients of its user."""
    gateway_max_waiting_bytes: Positive = 256_000_000
    """Bytes of memory that these requests take together, with the same consequence."""

    def __post_init__(self) -> None:
        """Refuse what the types do not. Raises `ValueError`, of which `load` makes a `SettingsError`."""
        host, colon, port = self.gateway_listen.rpartition(":")
        if not (colon and _is_host(host) and port.isascii() and port.isdecimal() and int(port) <= _MOST_PORT):
            raise ValueError(
                f"gateway.listen: {self.gateway_listen!r} is no address: write HOST:PORT, such as "
                "0.0.0.0:19092 or [::]:19092"
            )
        if not _is_host(self.gateway_advertised_host) or not self.gateway_advertised_host:
            raise ValueError(
                f"gateway.advertised.host: {self.gateway_advertised_host!r} is no host: write a name or an "
                "address; gateway.advertised.port is for the port"
            )
        if not self.gateway_tls_certificate and (self.gateway_tls_key or self.gateway_tls_client_ca):
            raise ValueError("gateway.tls.certificate is not set, without which there is no TLS")
        if self.gateway_advertised_port and not self.listen.port:
            raise ValueError("gateway.advertised.port is of no use while gateway.listen takes any free port")
        if self.gateway_max_unfinished_bytes < self.group.max_request_bytes:
            raise ValueError(
                f"gateway.max.unfinished.bytes is {self.gateway_max_unfinished_bytes}, and max.request.bytes "
                f"allows requests of {self.group.max_request_bytes} bytes: raise gateway.max.unfinished.bytes"
            )
        if self.gateway_advertised_nodes:
            self._check_names()
        self._check_prefix()
        self._check_brokers_groups()
        self._check_strangers()

    @property
    def listen(self) -> Listen:
        """The address at which clients find the gateway."""
        host, _, port = self.gateway_listen.rpartition(":")
        return Listen(host_of(host), int(port))

    @property
    def told_host(self) -> str:
        """The host that clients are told, without brackets."""
        return host_of(self.gateway_advertised_host)

    @property
    def names(self) -> Names | None:
        """The names that stand for the brokers; None if ports do."""
        nodes = self.gateway_advertised_nodes
        return Names(self.gateway_advertised_host, nodes) if nodes else None

    @property
    def takes_plaintext_passwords(self) -> bool:
        """Whether clients send their logins in plain text."""
        return self._brokers_protocol.startswith("SASL") and not self.gateway_tls_certificate

    @property
    def takes_everyone(self) -> bool:
        """Whether brokers that know their clients take everybody for the gateway."""
        return self._brokers_protocol == "SSL" and not self.gateway_tls_client_ca

    @property
    def _brokers_protocol(self) -> str:
        return self.kafka.get("security.protocol", "PLAINTEXT").upper()

    def node_port(self, node_id: int) -> int | None:
        """The port that stands for this broker; 0 if any does, None if none does."""
        if not self.listen.port:
            return 0
        port = self.listen.port + 1 + node_id
        is_port = max(port, self.told_port(port)) <= _MOST_PORT
        return port if 0 <= node_id < self.gateway_node_ports and is_port else None

    def told_port(self, port: int) -> int:
        """The port that clients are told in place of one that the gateway listens on."""
        return (
            port + self.gateway_advertised_port - self.listen.port if self.gateway_advertised_port else port
        )

    def _check_prefix(self) -> None:
        """Refuse tenants of which one could name the groups of another, as far as the settings tell."""
        if not self.gateway_groups_prefix:
            return
        prefixes = sorted({self.gateway_groups_prefix, *self.responses_topics})
        for shorter, longer in pairwise(prefixes):
            if longer.startswith(shorter):
                raise ValueError(
                    f"gateway.groups.prefix and responses.topics have {shorter!r} and {longer!r}, so one "
                    "tenant could name the groups of the other: choose prefixes of which none begins another"
                )

    def _check_brokers_groups(self) -> None:
        if not self.gateway_groups_brokers:
            return
        if self.gateway_groups_prefix:
            raise ValueError(
                "gateway.groups.brokers and gateway.groups.prefix are both set: there a group has no "
                "prefix, so one tenant could name the groups of another; keep one of them"
            )
        try:
            check(self.gateway_groups_brokers)
        except ValueError as error:
            raise ValueError(f"gateway.groups.brokers: {error}") from None

    def _check_strangers(self) -> None:
        """Refuse to weaken what the brokers demand, unless somebody has said so."""
        if self.takes_everyone and not self.gateway_allow_everyone:
            raise ValueError(
                "kafka.security.protocol is SSL, so brokers take all clients for the gateway itself: ask "
                "clients for certificates (gateway.tls.client.ca), use SASL_SSL, or set "
                "gateway.allow.everyone"
            )
        is_weaker = self.takes_plaintext_passwords and self._brokers_protocol == "SASL_SSL"
        if is_weaker and not self.gateway_allow_plaintext_passwords:
            raise ValueError(
                "kafka.security.protocol is SASL_SSL, and without gateway.tls.certificate clients would send "
                "their passwords in plain text: set it, or gateway.allow.plaintext.passwords"
            )

    def _check_names(self) -> None:
        host, nodes = self.gateway_advertised_host, self.gateway_advertised_nodes
        if nodes.count(NODE) != 1 or not _HOST_NAME.fullmatch(nodes.replace(NODE, "1")):
            raise ValueError(
                f"gateway.advertised.nodes: {nodes!r} is no name for each broker: write {NODE} in it once, "
                f"and a dot, as in broker-{NODE}.kafka.example.com"
            )
        if not self.gateway_tls_certificate:
            raise ValueError(
                "gateway.advertised.nodes needs gateway.tls.certificate, because clients name a broker in "
                "their TLS handshake only (SNI)"
            )
        if not _HOST_NAME.fullmatch(host):
            raise ValueError(
                f"gateway.advertised.host: {host!r} is no name with a dot, which gateway.advertised.nodes "
                "needs, because Java's clients name no other host in their TLS handshake (SNI)"
            )
        if (node_id := Names("", nodes).stands_for(host)) is not None:
            raise ValueError(
                f"gateway.advertised.host: {host!r} is the name of broker {node_id} by "
                "gateway.advertised.nodes: choose another"
            )


def _is_host(text: str) -> bool:
    try:
        host_of(text)
    except ValueError:
        return False
    return True
