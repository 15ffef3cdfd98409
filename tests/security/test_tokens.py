"""Everybody logs in with tokens (OAUTHBEARER) that expire while the test runs, at a real broker."""

from __future__ import annotations

import ssl
import subprocess
import urllib.request
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ACLOperation, ACLResourcePatternType, NewTopic, ResourcePattern, ResourceType
from kafka.structs import OffsetAndMetadata

from group_coordinator import GroupMember, TokenProvider, TokenRefusedError
from tests.commands.job import COMMAND, ROOT, HistoryJob, Job, Process
from tests.patience import PATIENCE_S, wait_for
from tests.security.conftest import USERS, gateway_before, password_of, write_settings
from tests.security.disguises import disguises
from tests.security.rights import Right, rights_of
from tests.topics import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.security.secured_broker import SecuredBroker
    from tests.security.token_server import TokenServer

pytestmark = pytest.mark.spark

LIFETIME_S = 12.0
"""Of a token: each of them expires more than once while a test runs."""


@pytest.fixture(autouse=True)
def short_lives(tokens: TokenServer) -> Iterator[None]:
    before, tokens.lifetime_s = tokens.lifetime_s, LIFETIME_S
    yield
    tokens.lifetime_s = before


def fetched(tokens: TokenServer, client: str) -> int:
    return sum(asked.client == client for asked in tokens.asked)


def as_settings(java: dict[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in java.items()}


@pytest.fixture
def job(secured: SecuredBroker, tmp_path: Path) -> Iterator[Job]:
    name = tmp_path.name
    topics = ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
    secured.grant(
        "coordinator", rights_of("The coordinator", {f"coordinator.{it}": f"{name}.{it}" for it in topics})
    )
    java = secured.token_properties("coordinator", password_of("coordinator"))
    file = write_settings(tmp_path / "coordinator.toml", as_settings(java))
    job = Job(secured.token_servers, tmp_path, name, "--config", str(file))
    try:
        job.wait_for("the coordinator is running")
        yield job
        job.terminate()
        assert job.exit_code() == 0
        said = "\n".join(job.said)
        assert "uthentication" not in said
        assert not told_in(said.encode())
    finally:
        job.kill()


def told_in(said: bytes) -> list[str]:
    """Whose secret is in a text."""
    return [user for user in USERS for form in disguises(password_of(user)) if form in said]


def own_names(job: Job) -> dict[str, str]:
    """Name in the guide -> topic of this coordinator."""
    return {f"coordinator.{name}": topic for name, topic in job.topics.items()}


def groups(servers: str, java: dict[str, str], directory: Path, job: Job) -> str:
    """What the command line lists, as `--command-config` has it."""
    file = directory / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in java.items()))
    done = subprocess.run(
        [
            *COMMAND,
            *("groups", "--list", "--bootstrap-server", servers, "--command-config", str(file)),
            *("--request-topic", job.topics["requests"], "--response-topic", job.topics["responses"]),
            *("--groups-topic", job.topics["groups"]),
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return done.stdout


def shown(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        text: str = answer.read().decode()
    return text


def provider(tokens: TokenServer, user: str, secret: str) -> TokenProvider:
    """As programs make it."""
    return TokenProvider(
        tokens.endpoint,
        client_id=user,
        client_secret=secret,
        scope="kafka",
        tls=ssl.create_default_context(cafile=tokens.trust["ssl.truststore.location"]),
    )


def member_config(secured: SecuredBroker, tokens: TokenServer) -> dict[str, Any]:
    """As the guide has it for programs."""
    return {
        "bootstrap_servers": secured.token_servers,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider(tokens, "member", password_of("member")),
        "ssl_cafile": str(secured.certificates.authority),
    }


@pytest.mark.verify
def test_a_member_stays_while_tokens_expire(secured: SecuredBroker, tokens: TokenServer, job: Job) -> None:
    """The coordinator's JVM and Python, and the member, log in again and again."""
    secured.grant("member", rights_of("A member", own_names(job)))
    with GroupMember(
        group_id="g",
        request_topic=job.topics["requests"],
        response_topic=job.topics["responses"],
        **member_config(secured, tokens),
    ) as member:
        member.subscribe(units=["eu"])
        wait_for(lambda: member.assignment, meanwhile=lambda: member.poll(timeout_ms=100))
        generation_id = member.generation_id
        before = len(tokens.asked)
        everybody = {(True, "coordinator"), (False, "coordinator"), (False, "member")}
        wait_for(
            lambda: {(each.by_java, each.client) for each in tokens.asked[before:]} >= everybody,
            meanwhile=lambda: member.poll(timeout_ms=100),
        )
        member.commit({"eu": 42})

        assert member.committed(["eu"])["eu"].offset == 42
        assert member.generation_id == generation_id
    assert {tuple(asked.form["scope"]) for asked in tokens.asked} == {("kafka",)}


@pytest.mark.verify
def test_gateway_history_page_and_command_line(
    secured: SecuredBroker, tokens: TokenServer, job: Job, tmp_path: Path
) -> None:
    """Each with a token of its own, and a client that shows its token to the gateway."""
    names = own_names(job)
    secured.grant("reader", rights_of("A client of the gateway", {"orders": "parcels", "billing": "posted"}))
    events = Right(
        ResourcePattern(ResourceType.TOPIC, job.topics["events"], ACLResourcePatternType.LITERAL),
        (ACLOperation.READ,),
    )
    names |= {"coordinator.responses*": job.topics["responses"]}
    secured.grant("operator", [*rights_of("An operator", names), *rights_of("The history", names), events])
    secured.operator.create_topics([NewTopic("parcels", num_partitions=1, replication_factor=1)])
    java = secured.token_properties("operator", password_of("operator"))
    file = write_settings(
        tmp_path / "operator.toml",
        as_settings(java) | {f"topics.{name}": topic for name, topic in job.topics.items()},
    )
    history = HistoryJob(secured.token_servers, tmp_path, job.topics["events"], "--config", str(file))
    page = Process(
        tmp_path,
        *("ui", "--bootstrap-server", secured.token_servers, "--port", "0", "--config", str(file)),
    )
    try:
        with gateway_before(secured, tmp_path, job.topics, by_token=True) as gateway:
            own = member_config(secured, tokens) | {
                "bootstrap_servers": gateway.wait_for("clients find the gateway at "),
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_oauth_token_provider": provider(tokens, "reader", password_of("reader")),
            }
            partition = TopicPartition("parcels", 0)
            with closing(KafkaConsumer("parcels", group_id="posted", **own)) as consumer:
                before = {user: fetched(tokens, user) for user in ("gateway", "operator", "reader")}
                wait_for(
                    lambda: all(fetched(tokens, user) >= n + 2 for user, n in before.items()),
                    meanwhile=lambda: consumer.poll(timeout_ms=100),
                )
                assert consumer.assignment() == {partition}
                assert consumer.position(partition) == 0
                consumer.commit({partition: OffsetAndMetadata(7, "", -1)})
                assert consumer.committed(partition) == 7
                assert "posted" in groups(secured.token_servers, java, tmp_path, job)
                root = page.wait_for("the page is at ")
                wait_for(lambda: "posted" in shown(root))
                wait_for(
                    lambda: history.metrics().get(("group_coordinator_history_rows_merged_total", "events"))
                )
        # The broker has accepted the name in the token, and every event of a request tells it.
        with Reader({"bootstrap_servers": secured.open_servers}, job.topics["events"]) as reader:
            committed = reader.first(lambda each: each["event"] == "offsets_committed")
        assert committed["principal"] == "reader"
    finally:
        for each in (history, page):
            each.kill()
            assert not told_in("\n".join(each.said).encode())


def test_a_server_that_is_not_trusted_is_told_at_once(
    secured: SecuredBroker, tokens: TokenServer, tmp_path: Path
) -> None:
    java = secured.token_properties("coordinator", password_of("coordinator"))
    login = java["sasl.jaas.config"].partition(" ssl.truststore")[0] + ";"
    file = write_settings(tmp_path / "wrong.toml", as_settings(java | {"sasl.jaas.config": login}))

    message = Job(secured.token_servers, tmp_path, "wrong", "--config", str(file)).error()

    assert f"the token endpoint {tokens.endpoint} is not trusted: " in message
    assert "CERTIFICATE_VERIFY_FAILED" in message


def test_a_wrong_secret_is_told_at_once(secured: SecuredBroker, tokens: TokenServer, tmp_path: Path) -> None:
    java = secured.token_properties("coordinator", "guessed")
    file = write_settings(tmp_path / "wrong.toml", as_settings(java))

    message = Job(secured.token_servers, tmp_path, "wrong", "--config", str(file)).error()

    assert message == (
        f"cannot reach Kafka at {secured.token_servers}: the token endpoint {tokens.endpoint} answers with "
        "status 401 (invalid_client - unknown client); it is kafka.sasl.oauthbearer.token.endpoint.url; "
        "clientId, clientSecret, scope and ssl.truststore.location for it are in kafka.sasl.jaas.config"
    )
    with pytest.raises(TokenRefusedError, match="unknown client"):
        GroupMember(
            group_id="g",
            **member_config(secured, tokens)
            | {"sasl_oauth_token_provider": provider(tokens, "member", "guessed")},
        )
