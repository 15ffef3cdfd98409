"""Connect to Kafka, or say why not, in a line that names what to change.

kafka-python tries again until its time is over and then says that it was; the reason of each failure is in
its log alone.
"""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, KafkaTimeoutError, RequestTimedOutError

from group_coordinator.client.tokens import check_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# Kafka's errors for the other reasons, in the end.
_TIME_IS_OVER = (KafkaTimeoutError, RequestTimedOutError)
_ENDED = "socket disconnected"
# The messages of kafka-python and OpenSSL, and what to look at.
_ADVICE = {
    "ECONNREFUSED": "nothing listens there: start Kafka, or name another --bootstrap-server",
    "CERTIFICATE_VERIFY_FAILED": "kafka.ssl.truststore.location has to have the authority that signed "
    "the brokers' certificates, and bootstrap.servers the names that are in them",
    "[X509": "kafka.ssl.truststore.location has no certificates that can be read",
    "[SSL] PEM lib": "kafka.ssl.keystore.location has no certificate with a key that kafka.ssl.key.password "
    "decrypts",
    "CERTIFICATE_REQUIRED": "the brokers want a certificate: set kafka.ssl.keystore.location",
    "WRONG_VERSION_NUMBER": "kafka.security.protocol has to be that of the port, which does not speak TLS",
    "Invalid frame length": "kafka.security.protocol has to be that of the port, which may speak TLS",
    "UnsupportedSaslMechanism": "kafka.sasl.mechanism has to be one that the brokers have enabled",
    "SaslAuthenticationFailed": "user name and password, or client id and secret, are in "
    "kafka.sasl.jaas.config",
    "the token endpoint": "it is kafka.sasl.oauthbearer.token.endpoint.url; clientId, clientSecret, scope "
    "and ssl.truststore.location for it are in kafka.sasl.jaas.config",
    "Unspecified GSS failure": "Kerberos: look at /etc/krb5.conf or KRB5_CONFIG, at keytab and principal in "
    "kafka.sasl.jaas.config, and at kafka.sasl.kerberos.service.name with the brokers' host names",
    # kafka-python 3.0.12 loses the broker's last words when the connection ends right behind them.
    _ENDED: "the broker ends the connection: kafka.security.protocol, kafka.sasl.mechanism, or user name and "
    "password in kafka.sasl.jaas.config may be wrong",
}


class UnreachableError(Exception):
    """Kafka cannot be reached, or does not let us in; the message is one line and says what to look at."""


def admin_client(client_config: Mapping[str, Any]) -> closing[KafkaAdminClient]:
    """An admin client for as long as the context is open; `UnreachableError` if there cannot be one."""
    return closing(connected_admin(client_config))


def connected_admin(client_config: Mapping[str, Any]) -> KafkaAdminClient:
    """Return an admin client, for the caller to close; `UnreachableError` if there cannot be one."""
    reasons = _Reasons()
    try:
        with _heard_by(reasons):
            check_token(client_config)
            return KafkaAdminClient(**client_config)
    except KafkaError as error:
        raise UnreachableError(reasons.explain(error)) from None


@contextmanager
def _heard_by(handler: logging.Handler) -> Iterator[None]:
    """Let `handler` have kafka-python's warnings, and nobody who would not have had them."""
    log = logging.getLogger("kafka")
    level, propagate = log.level, log.propagate
    if not log.isEnabledFor(logging.WARNING):
        log.setLevel(logging.WARNING)
        log.propagate = False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


class _Reasons(logging.Handler):
    """Collects what kafka-python logs as the cause of a failure to connect, each once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._failures: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        for argument in record.args if isinstance(record.args, tuple) else ():
            if isinstance(argument, Exception) and not isinstance(argument, _TIME_IS_OVER):
                self._failures[str(argument)] = None

    def explain(self, error: KafkaError) -> str:
        # A connection that just ends says less than anything else that has happened.
        failures = [it for it in self._failures if _ENDED not in it] or list(self._failures) or [str(error)]
        advice = [it for words, it in _ADVICE.items() if any(words in failure for failure in failures)]
        return "; ".join([*failures, *advice])
