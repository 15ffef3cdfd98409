"""The brokers' security, from the settings of the gateway's own connections."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from group_coordinator.gateway.health import GatewayHealth
from group_coordinator.gateway.metrics import GatewayMetrics
from group_coordinator.gateway.security import security_of
from group_coordinator.gateway.service import Gateway, GatewayError
from group_coordinator.gateway.settings import GatewaySettings


@pytest.mark.parametrize(
    ("protocol", "has_tls", "has_sasl"),
    [
        ("PLAINTEXT", False, False),
        ("SSL", True, False),
        ("SASL_PLAINTEXT", False, True),
        ("SASL_SSL", True, True),
    ],
)
def test_rights_are_asked_for_where_brokers_know_their_clients(
    protocol: str, has_tls: bool, has_sasl: bool
) -> None:
    config = {"security_protocol": protocol}
    found = security_of(config, "auto")
    assert (found.tls is not None, found.has_sasl) == (has_tls, has_sasl)
    assert found.asks_rights is (has_tls or has_sasl)
    assert security_of(config, "on").asks_rights
    assert not security_of(config, "off").asks_rights


@pytest.mark.parametrize(
    ("protocol", "is_guarded"),
    [("PLAINTEXT", True), ("SSL", True), ("SASL_PLAINTEXT", False), ("SASL_SSL", False)],
)
def test_the_gateway_guards_its_own_topics_where_brokers_cannot_tell_it_from_its_clients(
    protocol: str, is_guarded: bool
) -> None:
    found = security_of({"security_protocol": protocol}, "auto", own_topics=frozenset({"t"}))
    assert found.own_topics == ({"t"} if is_guarded else set())


def test_a_file_that_is_no_certificate_is_named_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    config = {"security_protocol": "SSL", "ssl_cafile": str(file)}
    with pytest.raises(GatewayError, match=r"^the brokers' TLS cannot be used: .*look at the PEM files"):
        Gateway(GatewaySettings(), config, GatewayMetrics(CollectorRegistry()), GatewayHealth())
