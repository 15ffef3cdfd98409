from __future__ import annotations

from pathlib import Path

import pytest

from group_coordinator.commands.settings import load_settings
from group_coordinator.gateway.settings import GatewaySettings, Listen
from group_coordinator.jobs.settings import SettingsError
from group_coordinator.page.settings import PageSettings

FILE = """
bootstrap.servers = "kafka:9092"
checkpoint = "/state"
history.retention.days = 90
gateway.listen = "[::1]:9000"
"""


def test_one_file_is_for_the_gateway_and_for_the_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "coordinator.toml"
    file.write_text(FILE)
    monkeypatch.setenv("GROUP_COORDINATOR_GATEWAY_MAX_CONNECTIONS", "7")
    monkeypatch.setenv("GROUP_COORDINATOR_UI_PORT", "0")
    gateway = load_settings(GatewaySettings, file, {"gateway.advertised.host": "h"})
    assert (gateway.listen, gateway.gateway_max_connections) == (Listen("::1", 9000), 7)
    assert gateway.gateway_advertised_host == "h"
    page = load_settings(PageSettings, file, {})
    assert (page.history_retention_days, page.ui_port) == (90, 0)
    for kind in (GatewaySettings, PageSettings):
        with pytest.raises(SettingsError, match=r"no setting gateway.listn; did you mean gateway.listen\?"):
            load_settings(kind, file, {"gateway.listn": "x"})


TLS = {"gateway.tls.certificate": "cert.pem"}


@pytest.mark.parametrize(
    ("protocol", "given", "named"),
    [
        ("SSL", {}, "gateway.allow.everyone"),
        ("ssl", {}, "gateway.allow.everyone"),
        ("SSL", TLS, "gateway.allow.everyone"),
        ("SSL", {**TLS, "gateway.tls.client.ca": "ca.pem"}, ""),
        ("SSL", {"gateway.allow.everyone": "true"}, ""),
        ("SSL", {"gateway.allow.plaintext.passwords": "true"}, "gateway.allow.everyone"),
        ("SASL_SSL", {}, "gateway.allow.plaintext.passwords"),
        ("SASL_SSL", {"gateway.allow.everyone": "true"}, "gateway.allow.plaintext.passwords"),
        ("SASL_SSL", {"gateway.allow.plaintext.passwords": "true"}, ""),
        ("SASL_SSL", TLS, ""),
        ("SASL_PLAINTEXT", {}, ""),
        ("PLAINTEXT", {}, ""),
    ],
)
def test_what_brokers_demand_is_weakened_only_if_somebody_says_so(
    protocol: str, given: dict[str, str], named: str
) -> None:
    given = {"kafka.security.protocol": protocol, **given}
    if not named:
        GatewaySettings.load(None, {}, given, needed=())
        return
    with pytest.raises(SettingsError, match=rf"^unusable setting: kafka.security.protocol is .* {named}$"):
        GatewaySettings.load(None, {}, given, needed=())


@pytest.mark.parametrize(
    ("protocol", "given", "everyone", "passwords"),
    [
        ("SSL", {"gateway.allow.everyone": "true"}, True, False),
        ("SSL", {**TLS, "gateway.tls.client.ca": "ca.pem"}, False, False),
        ("SASL_PLAINTEXT", {}, False, True),
        ("SASL_PLAINTEXT", TLS, False, False),
        ("SASL_SSL", {"gateway.allow.plaintext.passwords": "true"}, False, True),
        ("SASL_SSL", TLS, False, False),
        ("PLAINTEXT", {}, False, False),
    ],
)
def test_what_is_weakened_is_known(
    protocol: str, given: dict[str, str], everyone: bool, passwords: bool
) -> None:
    loaded = GatewaySettings.load(None, {}, {"kafka.security.protocol": protocol, **given}, needed=())
    assert (loaded.takes_everyone, loaded.takes_plaintext_passwords) == (everyone, passwords)


@pytest.mark.parametrize(
    ("own", "others", "is_refused"),
    [
        ("a-", [], False),
        ("a-", ["a-", "b-"], False),
        ("", ["a-", "a-b-"], False),
        ("a", ["a-"], True),
        ("a-b-", ["a-"], True),
        ("b-", ["a-", "a0-", "a-b-"], True),
    ],
)
def test_no_tenants_prefix_begins_anothers(own: str, others: list[str], is_refused: bool) -> None:
    given = {"gateway.groups.prefix": own, **{f"responses.topics.{it}": f"topic-{it}" for it in others}}
    if not is_refused:
        GatewaySettings.load(None, {}, given, needed=())
        return
    with pytest.raises(SettingsError, match=r"one tenant could name the groups of the other: choose"):
        GatewaySettings.load(None, {}, given, needed=())


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        *(
            ("listen", value, f"gateway.listen: {value!r} is no address")
            for value in ("x_y", "h:", "h:x", "h:70000", "[::1:9", "h:9:9", "[h]:9")
        ),
        *(
            ("advertised.host", value, f"gateway.advertised.host: {value!r} is no host")
            for value in ("", "h:9092", "[::1]:9092", "[h]")
        ),
        ("tls.key", "key.pem", "gateway.tls.certificate is not set"),
        ("advertised.port", "70000", "Expected `int` <= 65535 - at `gateway.advertised.port`"),
        *(
            ("advertised.nodes", value, f"gateway.advertised.nodes: {value!r} is no name for each broker")
            for value in ("broker", "broker-{node}", "{node}.{node}.x", "10.0.0.{node}", "b_{node}.x")
        ),
        ("advertised.nodes", "broker-{node}.x", "gateway.advertised.nodes needs gateway.tls.certificate"),
        ("max.connections", "0", "Expected `int` >= 1 - at `gateway.max.connections`"),
        ("max.unfinished.bytes", "999999", "gateway.max.unfinished.bytes is 999999, and max.request.bytes"),
        ("beats.linger.ms", "x", "Expected `int`, got `str` - at `gateway.beats.linger.ms`"),
    ],
)
def test_what_cannot_be_used_is_named(name: str, value: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        GatewaySettings.load(None, {}, {f"gateway.{name}": value}, needed=())
    assert str(caught.value).startswith(f"unusable setting: {why}")


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("localhost", "is no name with a dot"),
        ("10.0.0.1", "is no name with a dot"),
        ("BROKER-7.x", "is the name of broker 7"),
        ("broker-x.x", None),
    ],
)
def test_the_bootstrap_has_a_name_of_its_own(host: str, why: str | None) -> None:
    given = {"advertised.nodes": "broker-{node}.x", "advertised.host": host, "tls.certificate": "c"}
    settings = {f"gateway.{name}": value for name, value in given.items()}
    if why is None:
        assert GatewaySettings.load(None, {}, settings, needed=()).names is not None
        return
    with pytest.raises(SettingsError, match=rf"^unusable setting: gateway.advertised.host: '{host}' {why}"):
        GatewaySettings.load(None, {}, settings, needed=())


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_clients_are_told_an_address_without_brackets(host: str) -> None:
    assert GatewaySettings(gateway_advertised_host=host).told_host == "::1"


def test_any_free_port_cannot_be_told_as_another() -> None:
    with pytest.raises(ValueError, match=r"^gateway.advertised.port is of no use"):
        GatewaySettings(gateway_listen="h:0", gateway_advertised_port=443)


@pytest.mark.parametrize(
    ("listen", "node_id", "port"),
    [
        ("h:0", 70_000, 0),
        ("h:19092", 1, 19_094),
        ("h:19092", 999, 20_092),
        ("h:19092", 1_000, None),
        ("h:65000", 535, None),
    ],
)
def test_the_port_of_a_broker(listen: str, node_id: int, port: int | None) -> None:
    assert GatewaySettings(gateway_listen=listen).node_port(node_id) == port


def test_a_broker_whose_advertised_port_is_beyond_all_ports_has_none() -> None:
    settings = GatewaySettings(gateway_listen="h:19092", gateway_advertised_port=65_000)
    assert [settings.node_port(each) for each in (534, 535)] == [19_627, None]
