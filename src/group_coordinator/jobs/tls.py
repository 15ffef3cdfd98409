"""TLS of connections, from Java's properties as Python has it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from group_coordinator.jobs.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

# PEM files are the one format that both clients read.
_PEM = {
    "ssl.truststore.location": ("ssl.truststore.type", "ssl_cafile"),
    "ssl.keystore.location": ("ssl.keystore.type", "ssl_certfile"),
}


def tls_settings(java: Mapping[str, str], prefix: str = "kafka.") -> dict[str, Any]:
    """kafka-python's settings that trust and show what the Java properties `java` say.

    Raises `SettingsError` for files that Python cannot read. Messages have `prefix` before a property.
    """
    config: dict[str, Any] = {}
    for name, (type_name, target) in _PEM.items():
        if name not in java:
            continue
        if java.get(type_name, "JKS").upper() != "PEM":
            raise SettingsError(
                f"{prefix}{name} must be a PEM file ({prefix}{type_name} = PEM): Spark's and "
                "Python's Kafka clients both have to read it"
            )
        if not Path(java[name]).is_file():
            raise SettingsError(f"{prefix}{name}: there is no file {java[name]}")
        config[target] = java[name]
    if "ssl.keystore.location" in java:
        # Without one OpenSSL would ask for it on the terminal, and wait.
        config["ssl_password"] = java.get("ssl.key.password", "")
    if not java.get("ssl.endpoint.identification.algorithm", "https"):
        config["ssl_check_hostname"] = False
    return config


def tls_context(config: Mapping[str, Any]) -> ssl.SSLContext:
    """TLS as kafka-python has it with these settings.

    Raises OSError (`ssl.SSLError` is one) if a file cannot be used.
    """
    tls = ssl.create_default_context(cafile=config.get("ssl_cafile"))
    if not config.get("ssl_check_hostname", True):
        tls.check_hostname = False
    if certificate := config.get("ssl_certfile"):
        tls.load_cert_chain(certificate, password=config.get("ssl_password"))
    return tls
