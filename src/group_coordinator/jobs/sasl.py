"""A login at the brokers (SASL), from Java's properties, for Java's clients and for kafka-python's."""

from __future__ import annotations

import re
import ssl
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from group_coordinator.client.tokens import TokenProvider
from group_coordinator.deploy.extras import missing
from group_coordinator.jobs.settings import SettingsError
from group_coordinator.jobs.tls import tls_context, tls_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""The JVM's property without which Java clients of Kafka 4 ask no token endpoint."""

_JAAS = "sasl.jaas.config"
_OPTION = re.compile(r"""([\w.$-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""")
_CLIENT_HANDLER = "sasl.client.callback.handler.class"
_LOGIN_HANDLER = "sasl.login.callback.handler.class"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_MSK = "software.amazon.msk.auth.iam"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
# Java's name since 4.1 -> the JAAS option before, which all versions take.
_CREDENTIALS = {
    "sasl.oauthbearer.client.credentials.client.id": "clientId",
    "sasl.oauthbearer.client.credentials.client.secret": "clientSecret",
    "sasl.oauthbearer.scope": "scope",
}
_EXTENSION = "extension_"
_HIDING = "password"
"""An option that no login by token has, and that Java passes over."""
_TLS_OPTION = "ssl."
# Java waits for a token endpoint without end unless these are set.
_PATIENCE = dict.fromkeys(("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"), "10000")
# Java classes whose work Python does as well, by the mechanism and the property that names them.
_FOLLOWED = {
    ("OAUTHBEARER", _LOGIN_HANDLER): (
        f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
    ),
    ("AWS_MSK_IAM", _CLIENT_HANDLER): (f"{_MSK}.IAMClientCallbackHandler",),
}
# One for each login that a process has; it has one for Kafka.
_PROVIDERS = 4


class SaslLogin(NamedTuple):
    """One login twice."""

    java: Mapping[str, str]
    """All properties of a Java client, with those of the login as any version from 3.9 on takes them."""
    python: Mapping[str, Any]
    """kafka-python's settings of the login."""
    environment: Mapping[str, str] = MappingProxyType({})
    """Variables of this process that the login's library for Python reads."""


def sasl_login(java: Mapping[str, str]) -> SaslLogin:
    """The login of these Java properties.

    Raises `SettingsError` for what kafka-python cannot follow; no message has a secret.
    """
    mechanism = _mechanism(java)
    if mechanism not in _LOGINS:
        # Java takes GSSAPI if there is none; somebody who wants that says so.
        given = f"is {mechanism}" if mechanism else "is not set"
        raise SettingsError(
            f"kafka.sasl.mechanism {given}, and must be one of {', '.join(_LOGINS)}: Spark's and "
            "Python's Kafka clients both have to speak it"
        )
    login = _LOGINS[mechanism](java)
    return login._replace(python={"sasl_mechanism": mechanism, **login.python})


def is_followed(java: Mapping[str, str], name: str) -> bool:
    """Whether Python does without it the work of the Java class that the property `name` names."""
    return java[name] in _FOLLOWED.get((_mechanism(java), name), ())


def token_endpoint(java: Mapping[str, str]) -> str | None:
    """The URL that a Java client with these properties asks for tokens; None if it asks none."""
    has_sasl = java.get("security.protocol", "").upper().startswith("SASL")
    return java.get(_ENDPOINT) if has_sasl and _mechanism(java) == "OAUTHBEARER" else None


def _mechanism(java: Mapping[str, str]) -> str:
    return java.get("sasl.mechanism", "")


def _options(java: Mapping[str, str]) -> dict[str, str]:
    """The options of the login module in `sasl.jaas.config`."""
    return {name: _unquoted(value) for name, value in _OPTION.findall(java.get(_JAAS, ""))}


def _unquoted(value: str) -> str:
    if value[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", r"\\").replace('"', r"\"") + '"'


def _by_password(java: Mapping[str, str]) -> SaslLogin:
    found = _options(java)
    # The value is a secret: it does not go into the messages.
    if found.get("tokenauth", "false").lower() == "true":
        raise SettingsError("kafka.sasl.jaas.config has a delegation token, which Python cannot use")
    if not {"username", "password"} <= found.keys():
        raise SettingsError("kafka.sasl.jaas.config has no username and password that Python can use")
    python = {"sasl_plain_username": found["username"], "sasl_plain_password": found["password"]}
    return SaslLogin(java, python)


def _by_token(java: Mapping[str, str]) -> SaslLogin:
    """Log in with a token of an OAuth server, for its own client id and secret (KIP-768)."""
    options = _options(java)
    # Java 4.1 takes the property if both are there.
    options |= {option: java[name] for name, option in _CREDENTIALS.items() if name in java}
    endpoint = java.get(_ENDPOINT, "")
    if not endpoint:
        raise SettingsError(f"kafka.{_ENDPOINT} is not set: it is the URL that gives tokens for OAUTHBEARER")
    if re.search(r"[\s,\"']", endpoint):
        raise SettingsError(f"kafka.{_ENDPOINT} has a blank, comma or quote in it: write it as %20 and so on")
    for name, option in _CREDENTIALS.items():
        if option != "scope" and not options.get(option):
            raise SettingsError(
                f"OAUTHBEARER needs {option}=... in kafka.sasl.jaas.config, or kafka.{name}, beside "
                f"kafka.{_ENDPOINT}"
            )
    provider = _provider(
        endpoint,
        options["clientId"],
        options["clientSecret"],
        scope=options.get("scope", ""),
        url_encoded=java.get("sasl.oauthbearer.header.urlencode", "false").lower() == "true",
        extensions=tuple(
            (name.removeprefix(_EXTENSION), value)
            for name, value in options.items()
            if name.startswith(_EXTENSION)
        ),
        tls=tuple((name, value) for name, value in options.items() if name.startswith(_TLS_OPTION)),
    )
    # Spark hides what it logs from this option to the last quote, and nothing that is called a secret.
    options = {_HIDING: "", **options}
    given = "".join(f" {name}={_quoted(value)}" for name, value in options.items())
    return SaslLogin(
        {
            **_PATIENCE,
            **{name: value for name, value in java.items() if name not in _CREDENTIALS},
            _JAAS: f"{_OAUTH}.OAuthBearerLoginModule required{given};",
            _LOGIN_HANDLER: f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        },
        {"sasl_oauth_token_provider": provider},
    )


@lru_cache(_PROVIDERS)
def _provider(
    endpoint: str,
    client_id: str,
    client_secret: str,
    *,
    scope: str,
    url_encoded: bool,
    extensions: tuple[tuple[str, str], ...],
    tls: tuple[tuple[str, str], ...],
) -> TokenProvider:
    """Make a provider. Equal clients of an OAuth server share one and its token."""
    try:
        return TokenProvider(
            endpoint,
            client_id=client_id,
            client_secret=client_secret,
            scope=scope,
            url_encoded=url_encoded,
            extensions=dict(extensions),
            # Java checks the name of a token endpoint in any case.
            tls=tls_context(
                tls_settings(dict(tls), "kafka.sasl.jaas.config: ") | {"ssl_check_hostname": True}
            ),
        )
    except ssl.SSLError as error:
        raise SettingsError(
            "kafka.sasl.jaas.config: ssl.truststore.location or ssl.keystore.location cannot be used: "
            f"{error}"
        ) from None
    except ValueError as error:
        raise SettingsError(f"kafka.{_ENDPOINT} cannot be used: {error}") from None


def _by_ticket(java: Mapping[str, str]) -> SaslLogin:
    """Log in with a ticket of Kerberos, which Python gets from the same file as Java."""
    if advice := missing("kerberos", "gssapi"):
        raise SettingsError(f"kafka.sasl.mechanism is GSSAPI: {advice}")
    options = _options(java)
    service = java.get("sasl.kerberos.service.name") or options.get("serviceName")
    if not service:
        raise SettingsError(
            "kafka.sasl.kerberos.service.name is not set: it is the first part of the brokers' principal, "
            "as in kafka/HOST@REALM"
        )
    if options.get("useKeyTab", "").lower() == "true":
        keytab = options.get("keyTab", "")
        if not Path(keytab).is_file():
            raise SettingsError(f"kafka.sasl.jaas.config: keyTab names no file that is there: {keytab!r}")
        # The tickets of somebody who has logged in on this machine are not for this program.
        environment = {"KRB5_CLIENT_KTNAME": f"FILE:{keytab}", "KRB5CCNAME": "MEMORY:group-coordinator"}
    elif options.get("useTicketCache", "").lower() == "true":
        cache = options.get("ticketCache")
        environment = {"KRB5CCNAME": cache} if cache else {}
    else:
        raise SettingsError(
            "kafka.sasl.jaas.config has neither useKeyTab=true with keyTab=... nor useTicketCache=true: the "
            "program cannot ask for a password"
        )
    return SaslLogin(java, {"sasl_kerberos_service_name": service}, environment)


def _by_aws(java: Mapping[str, str]) -> SaslLogin:
    """Log in to Amazon MSK as whoever the environment's credentials of AWS are for."""
    if advice := missing("msk", "botocore"):
        raise SettingsError(f"kafka.sasl.mechanism is AWS_MSK_IAM: {advice}")
    if java.get("security.protocol", "").upper() != "SASL_SSL":
        raise SettingsError("kafka.security.protocol must be SASL_SSL for AWS_MSK_IAM")
    if options := sorted(_options(java)):
        raise SettingsError(
            f"kafka.sasl.jaas.config has the option {options[0]}, which Python cannot follow: set "
            "AWS_PROFILE, AWS_ROLE_ARN and the like in the environment, where Java and Python find them"
        )
    login = {_JAAS: f"{_MSK}.IAMLoginModule required;", _CLIENT_HANDLER: f"{_MSK}.IAMClientCallbackHandler"}
    return SaslLogin({**java, **login}, {})


_LOGINS: dict[str, Callable[[Mapping[str, str]], SaslLogin]] = {
    "PLAIN": _by_password,
    "SCRAM-SHA-256": _by_password,
    "SCRAM-SHA-512": _by_password,
    "OAUTHBEARER": _by_token,
    "GSSAPI": _by_ticket,
    "AWS_MSK_IAM": _by_aws,
}
