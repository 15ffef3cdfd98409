"""One set of Kafka client properties for both kinds of client: Java's (Spark) and kafka-python's."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from group_coordinator.jobs.sasl import is_followed, sasl_login
from group_coordinator.jobs.settings import SettingsError
from group_coordinator.jobs.tls import tls_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from group_coordinator.jobs.settings import JobSettings

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_IN_A_FILE = "put it into a PEM file and name that with kafka.{}"
# Without these Python would connect as somebody else, to somewhere else, or trust others than Java does.
_REFUSED = {
    "bootstrap.servers": "set bootstrap.servers instead",
    "sasl.client.callback.handler.class": "Python cannot run Java code",
    "sasl.login.callback.handler.class": "Python cannot run Java code",
    "sasl.login.class": "Python cannot run Java code",
    "sasl.oauthbearer.jwt.retriever.class": "Python cannot run Java code",
    "ssl.engine.factory.class": "Python cannot run Java code",
    "ssl.keystore.certificate.chain": _IN_A_FILE.format("ssl.keystore.location"),
    "ssl.keystore.key": _IN_A_FILE.format("ssl.keystore.location"),
    "ssl.truststore.certificates": _IN_A_FILE.format("ssl.truststore.location"),
}
# At DEBUG these log passwords and tokens: an admin client's settings, and logins byte for byte.
_TOO_FRANK = ("kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser")


def python_client_config(bootstrap_servers: str, java: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python keyword arguments that connect as the Java properties `java` do.

    Properties that only tune a Java client are left out. With Kerberos the environment of this process names
    its keytab from now on. Raises `SettingsError` for security settings
    that kafka-python cannot follow: silently connecting without them would be worse.
    """
    for name, advice in _REFUSED.items():
        if name in java and not is_followed(java, name):
            raise SettingsError(f"kafka.{name} cannot be used: {advice}")
    protocol = java.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise SettingsError(
            f"kafka.security.protocol is {protocol}, and must be one of {', '.join(_PROTOCOLS)}"
        )
    for name in _TOO_FRANK:
        no_debug(name)
    config: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in bootstrap_servers.split(",")],
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL"):
        login = sasl_login(java)
        config |= login.python
        # Libraries of Kerberos take no other settings.
        os.environ.update(login.environment)
    if protocol.endswith("SSL"):
        config |= tls_settings(java)
    return config


def no_debug(name: str) -> None:
    """Keep the logger `name`, and what it logs, at INFO or above, even if DEBUG was asked for."""
    logger = logging.getLogger(name)
    if logger.getEffectiveLevel() < logging.INFO:
        logger.setLevel(logging.INFO)


def kafka_options(settings: JobSettings) -> dict[str, str]:
    """The brokers' addresses and the user's own client properties, for Spark's source and sink.

    Raises `SettingsError` as `python_client_config` does.
    """
    java: Mapping[str, str] = settings.kafka
    if java.get("security.protocol", "").upper().startswith("SASL"):
        java = sasl_login(java).java
    return {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        **{f"kafka.{name}": value for name, value in java.items()},
    }
