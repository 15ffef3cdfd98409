"""The embedded broker as production has it: SASL_SSL with SCRAM, and no right that was not granted."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialUpsertion,
)
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from group_coordinator.deploy.broker import EmbeddedBroker, _free_port
from group_coordinator.jobs.sasl import ALLOWED_URLS
from tests.patience import wait_for
from tests.security.certificates import PASSWORD, Certificates, make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tests.security.rights import Right
    from tests.security.token_server import TokenServer

__all__ = ["MECHANISM", "SecuredBroker"]

MECHANISM = "SCRAM-SHA-512"
_HOST = "127.0.0.1"
_SESSION_MS = 3_600_000
"""Longer than any test: a client whose token or ticket lasts may stay."""


class SecuredBroker:
    """Apache Kafka with two listeners for everybody, and one, unprotected, for whoever sets it up.

    On the last one clients have no name (User:ANONYMOUS), and whoever has none may do anything: the test
    is the operator, and it has to come in before there are passwords.
    """

    def __init__(self, directory: Path, passwords: Mapping[str, str], tokens: TokenServer) -> None:
        """`passwords`: who may log in by PLAIN at the first listener.

        By OAUTHBEARER everybody may there: nobody signs the tokens. At the second one `tokens` does.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.certificates: Certificates = make_certificates(directory)
        self._tokens = tokens
        open_port, self._port, self._tokens_port, controller = (_free_port() for _ in range(4))
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        protocols |= {"SECURED": "SASL_SSL", "TOKENS": "SASL_SSL"}
        addresses = (
            f"PLAINTEXT://{_HOST}:{open_port},SECURED://{_HOST}:{self._port},"
            f"TOKENS://{_HOST}:{self._tokens_port}"
        )
        self._broker = EmbeddedBroker(
            directory / "kafka",
            port=open_port,
            jvm_flags=("-XX:TieredStopAtLevel=1", f"-D{ALLOWED_URLS}={tokens.keys}"),
            overrides={
                "listeners": f"{addresses},CONTROLLER://{_HOST}:{controller}",
                "advertised.listeners": addresses,
                "controller.quorum.voters": f"1@{_HOST}:{controller}",
                "listener.security.protocol.map": ",".join(f"{it}:{protocols[it]}" for it in protocols),
                "sasl.enabled.mechanisms": f"{MECHANISM},PLAIN,OAUTHBEARER",
                "listener.name.secured.plain.sasl.jaas.config": _login(
                    "plain.PlainLoginModule", **{f"user_{name}": it for name, it in passwords.items()}
                ),
                "listener.name.secured.oauthbearer.sasl.jaas.config": _login(
                    "oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="broker"
                ),
                "listener.name.secured.scram-sha-512.sasl.jaas.config": _login("scram.ScramLoginModule"),
                "listener.name.secured.connections.max.reauth.ms": str(_SESSION_MS),
                "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
                # With trust in the server of the keys.
                "listener.name.tokens.oauthbearer.sasl.jaas.config": _login(
                    "oauthbearer.OAuthBearerLoginModule",
                    unsecuredLoginStringClaim_sub="broker",
                    **tokens.trust,
                ),
                "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
                ),
                "listener.name.tokens.sasl.oauthbearer.jwks.endpoint.url": tokens.keys,
                # A login ends with its token, and its connection unless its client logs in again.
                "listener.name.tokens.connections.max.reauth.ms": str(_SESSION_MS),
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(self.certificates.keystore),
                "ssl.keystore.password": PASSWORD,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "allow.everyone.if.no.acl.found": "false",
                "super.users": "User:ANONYMOUS",
            },
        )
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        self._resources.enter_context(self._broker)
        self.operator = KafkaAdminClient(bootstrap_servers=self._broker.bootstrap_servers)
        self._resources.callback(self.operator.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @property
    def bootstrap_servers(self) -> str:
        """Where everybody has to say who they are."""
        return f"{_HOST}:{self._port}"

    @property
    def token_servers(self) -> str:
        """Where everybody has to show a token."""
        return f"{_HOST}:{self._tokens_port}"

    @property
    def open_servers(self) -> str:
        """Where whoever comes in may do anything."""
        return self._broker.bootstrap_servers

    def add_user(self, name: str, password: str) -> None:
        """Let `name` in, with no rights at all."""
        upsertion = UserScramCredentialUpsertion(name, MECHANISM, password)
        assert self.operator.alter_user_scram_credentials([upsertion]) == {name: None}
        wait_for(
            lambda: bool(self.operator.describe_user_scram_credentials([name])[name]["credential_infos"])
        )

    def grant(self, user: str, rights: Iterable[Right]) -> None:
        """Allow `user` what `rights` say, and nothing of what it was allowed before."""
        acls = [
            ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, right.pattern)
            for right in rights
            for operation in right.operations
        ]
        every = _all_rights_of(user)
        self.operator.delete_acls([every])
        assert self.operator.create_acls(acls)["failed"] == []
        # The controller has them now; the broker asks nobody and hears of them a moment later.
        wait_for(lambda: set(self.operator.describe_acls(every)[0]) == set(acls))

    def limit(self, user: str, producer_byte_rate: float | None) -> None:
        """Let all producers of `user` together append that many bytes a second; None: as many as they like.

        kafka-python has the message, but no method of its admin client sends it.
        """
        entry = AlterClientQuotasRequest.EntryData
        request = AlterClientQuotasRequest(
            entries=[
                entry(
                    entity=[entry.EntityData(entity_type="user", entity_name=user)],
                    ops=[
                        entry.OpData(
                            key="producer_byte_rate",
                            value=producer_byte_rate or 0,
                            remove=producer_byte_rate is None,
                        )
                    ],
                )
            ],
            validate_only=False,
        )
        manager = self.operator._manager
        response = manager.run(manager.send, request)
        assert [it.error_code for it in response.entries] == [0]

    def java_properties(self, user: str, password: str) -> dict[str, str]:
        """The properties of a Java client that comes as `user`."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": _login("scram.ScramLoginModule", username=user, password=password),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
        }

    def token_properties(self, user: str, secret: str) -> dict[str, str]:
        """The same with a token of the OAuth server, for `token_servers`."""
        return self.java_properties(user, "") | {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self._tokens.endpoint,
            "sasl.jaas.config": _login(
                "oauthbearer.OAuthBearerLoginModule",
                clientId=user,
                clientSecret=secret,
                scope="kafka",
                **self._tokens.trust,
            ),
        }

    def client_config(self, user: str, password: str) -> dict[str, Any]:
        """kafka-python's settings to come as `user`, as the guide for members has them."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
            "ssl_cafile": str(self.certificates.authority),
        }


def _login(module: str, **options: str) -> str:
    """What Java calls a JAAS configuration."""
    given = "".join(f' {name}="{value}"' for name, value in options.items())
    return f"org.apache.kafka.common.security.{module} required{given};"


def _all_rights_of(user: str) -> ACLFilter:
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    return ACLFilter(f"User:{user}", None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
