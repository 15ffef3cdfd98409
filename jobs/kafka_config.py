"""One set of Kafka client properties for both kinds of client: Java's (Spark) and kafka-python's."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from group_coordinator.jobs.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from group_coordinator.jobs.settings import Settings

__all__ = ["kafka_options", "no_debug", "python_client_config"]

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_IN_A_FILE = "put it into a PEM file and name that with kafka.{}"
# Without these Python would connect as somebody else, to somewhere else, or trust others than Java does.
_REFUSED = {
    "bootstrap.servers": "set bootstrap.servers instead",
    "sasl.client.callback.handler.class": "Python cannot run Java code",
    "sasl.login.callback.handler.class": "Python cannot run Java code",
    "sasl.login.class": "Python cannot run Java code",
    "ssl.engine.factory.class": "Python cannot run Java code",
    "ssl.keystore.certificate.chain": _IN_A_FILE.format("ssl.keystore.location"),
    "ssl.keystore.key": _IN_A_FILE.format("ssl.keystore.location"),
    "ssl.truststore.certificates": _IN_A_FILE.format("ssl.truststore.location"),
}
# PEM files are the one format that both clients read.
_PEM = {
    "ssl.truststore.location": ("ssl.truststore.type", "ssl_cafile"),
    "ssl.keystore.location": ("ssl.keystore.type", "ssl_certfile"),
}
# At DEBUG these log passwords: an admin client's settings, and logins by PLAIN byte for byte.
_TOO_FRANK = ("kafka.admin.client", "kafka.net.connection")
_JAAS = re.compile(r"""\b(username|password|tokenauth)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""")


def python_client_config(bootstrap_servers: str, java: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python keyword arguments that connect as the Java properties `java` do.

    Properties that only tune a Java client are left out. Raises `SettingsError` for security settings
    that kafka-python cannot follow: silently connecting without them would be worse.
    """
    for name, advice in _REFUSED.items():
        if name in java:
            raise SettingsError(f"kafka.{name} cannot be used: {advice}")
    protocol = java.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise SettingsError(f"kafka.security.protocol is {protocol}, and must be {_one_of(_PROTOCOLS)}")
    for name in _TOO_FRANK:
        no_debug(name)
    config: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in bootstrap_servers.split(",")],
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL"):
        config |= _sasl(java)
    if protocol.endswith("SSL"):
        config |= _ssl(java)
    return config


def _sasl(java: Mapping[str, str]) -> dict[str, str]:
    mechanism = java.get("sasl.mechanism", "GSSAPI")  # Java's default
    if mechanism not in _MECHANISMS:
        raise SettingsError(f"kafka.sasl.mechanism is {mechanism}, and must be {_one_of(_MECHANISMS)}")
    jaas = java.get("sasl.jaas.config", "")
    found = {name: _unquote(value) for name, value in _JAAS.findall(jaas)}
    # The value is a secret: it does not go into the messages.
    if found.pop("tokenauth", "false").lower() == "true":
        raise SettingsError("kafka.sasl.jaas.config has a delegation token, which Python cannot use")
    if found.keys() != {"username", "password"}:
        raise SettingsError("kafka.sasl.jaas.config has no username and password that Python can use")
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": found["username"],
        "sasl_plain_password": found["password"],
    }


def _ssl(java: Mapping[str, str]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for name, (type_name, target) in _PEM.items():
        if name not in java:
            continue
        if java.get(type_name, "JKS").upper() != "PEM":
            raise SettingsError(
                f"kafka.{name} must be a PEM file (kafka.{type_name} = PEM): Spark's and "
                "Python's Kafka clients both have to read it"
            )
        if not Path(java[name]).is_file():
            raise SettingsError(f"kafka.{name}: there is no file {java[name]}")
        config[target] = java[name]
    if "ssl.keystore.location" in java:
        # Without one OpenSSL would ask for it on the terminal, and wait.
        config["ssl_password"] = java.get("ssl.key.password", "")
    if not java.get("ssl.endpoint.identification.algorithm", "https"):
        config["ssl_check_hostname"] = False
    return config


def no_debug(name: str) -> None:
    """Keep the logger `name`, and what it logs, at INFO or above, even if DEBUG was asked for."""
    logger = logging.getLogger(name)
    if logger.getEffectiveLevel() < logging.INFO:
        logger.setLevel(logging.INFO)


def _one_of(names: tuple[str, ...]) -> str:
    return f"one of {', '.join(names)}: Spark's and Python's Kafka clients both have to speak it"


def _unquote(value: str) -> str:
    if value[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value


def kafka_options(settings: Settings) -> dict[str, str]:
    """The brokers' addresses and the user's own client properties, for Spark's source and sink."""
    return {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        **{f"kafka.{name}": value for name, value in settings.kafka.items()},
    }
