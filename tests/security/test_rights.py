"""What a coordinator says that lacks a right, or is not let in."""

from __future__ import annotations

import gc
import json
import logging
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer
from kafka.admin import ACLOperation, ResourcePattern, ResourceType
from prometheus_client import CollectorRegistry

from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.streaming.probes import Probes
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.topic_specs import TopicError, TopicNote, examine_topics, prepare_topics
from group_coordinator.streaming.watching.report import Report
from group_coordinator.streaming.watching.watcher import TopicWatcher
from tests.patience import wait_for
from tests.security.certificates import make_client_key
from tests.security.conftest import password_of
from tests.security.rights import Right, rights_of
from tests.streaming.registry import samples
from tests.topics import Reader

if TYPE_CHECKING:
    from tests.security.secured_broker import SecuredBroker

pytestmark = [pytest.mark.spark, pytest.mark.verify]

COORDINATOR = rights_of("The coordinator")
(OF_PROBES,) = [
    it
    for it in COORDINATOR
    if it.pattern.resource_name == "coordinator.requests" and ACLOperation.WRITE in it.operations
]
"""The one that it can do without."""
ON_TOPICS = [
    (right, operation)
    for right in COORDINATOR
    for operation in right.operations
    if right.pattern.resource_type is ResourceType.TOPIC and right is not OF_PROBES
]
WORDS = {
    ACLOperation.READ: "Read",
    ACLOperation.WRITE: "Write",
    ACLOperation.DESCRIBE_CONFIGS: "DescribeConfigs",
}


def properties(secured: SecuredBroker, **changed: str) -> dict[str, str]:
    own = secured.java_properties("coordinator", password_of("coordinator"))
    return own | {name.replace("_", "."): value for name, value in changed.items()}


def given(
    secured: SecuredBroker, java: dict[str, str] | None = None, **settings: object
) -> tuple[CoordinatorSettings, dict[str, Any]]:
    """A coordinator's settings and those of its clients, with the patience of a test."""
    loaded = CoordinatorSettings.load(
        None,
        {},
        {"bootstrap.servers": secured.bootstrap_servers, "checkpoint": "unused"}
        | {name.replace("_", "."): value for name, value in settings.items()},
    )
    client_config = python_client_config(secured.bootstrap_servers, java or properties(secured))
    return loaded, client_config | {"bootstrap_timeout_ms": 2_000}


def prepare(secured: SecuredBroker, java: dict[str, str] | None = None, **settings: object) -> dict[str, int]:
    """As the coordinator does it first of all."""
    return prepare_topics(*given(secured, java, **settings))


def refusal(secured: SecuredBroker, java: dict[str, str] | None = None, **settings: object) -> str:
    with pytest.raises(TopicError) as caught:
        prepare(secured, java, **settings)
    gc.collect()  # kafka-python leaves the sockets of connections that failed to it
    assert "\n" not in str(caught.value)
    assert password_of("coordinator") not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def topics(secured: SecuredBroker) -> Iterator[None]:
    """The coordinator's topics are there, made with the rights of the guide."""
    secured.grant("coordinator", COORDINATOR)
    prepare(secured, create_topics=True)
    yield
    secured.grant("coordinator", [])


def without(missing: Right, operation: ACLOperation) -> list[Right]:
    return [
        Right(right.pattern, tuple(it for it in right.operations if (right, it) != (missing, operation)))
        for right in COORDINATOR
    ]


@pytest.mark.usefixtures("topics")
def test_each_right_of_the_guide_is_needed_and_missed_at_the_start(secured: SecuredBroker) -> None:
    said = {}
    for right, operation in ON_TOPICS:
        secured.grant("coordinator", without(right, operation))
        topic = right.pattern.resource_name
        said[topic, operation] = refusal(secured)
        examined = examine_topics(*given(secured))
        wrong = {name: str(told) for name, told in examined.items() if isinstance(told, TopicError)}
        assert wrong.keys() == {topic}, "the doctor tells the same"
        assert wrong[topic].startswith(f"rights are missing: {WORDS[operation]}.")

    assert said == {
        (right.pattern.resource_name, operation): (
            f"rights are missing: {WORDS[operation]} on topic {right.pattern.resource_name}. "
            "Grant them with kafka-acls.sh; docs/security.md lists all that the coordinator needs"
        )
        for right, operation in ON_TOPICS
    }


@pytest.mark.usefixtures("topics")
def test_without_the_right_to_write_probes_nobody_watches_and_that_is_said(
    secured: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    secured.grant("coordinator", [it for it in COORDINATOR if it is not OF_PROBES])
    prepare(secured)
    settings, config = given(secured)
    examined = examine_topics(settings, config)
    notes = {name: told for name, told in examined.items() if isinstance(told, TopicNote)}
    assert not [told for told in examined.values() if isinstance(told, TopicError)]
    assert notes.keys() == {"coordinator.requests"}
    assert str(notes["coordinator.requests"]).startswith("Write is not allowed, so nobody watches ")

    with Probes.of(settings, 4, config) as probes:
        wait_for(lambda: len(probes._times) == 0)
        wait_for(lambda: "not watching whether request partitions take requests: " in caplog.text)
        # It is all the same to time.
        assert probes.unwritten_ms() == 0
    assert caplog.text.count("not watching") == 1

    off, config = given(secured, probes_enabled="false")
    assert not [told for told in examine_topics(off, config).values() if not isinstance(told, str)]


@pytest.mark.usefixtures("topics")
def test_a_topic_of_a_consumer_group_that_may_not_be_seen_is_told_of_once_and_never_gone(
    secured: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    seen, unseen = (
        Right(ResourcePattern(ResourceType.TOPIC, name), (ACLOperation.DESCRIBE,)) for name in ("s", "u")
    )
    secured.grant("coordinator", [*COORDINATOR, seen])
    settings, config = given(secured, topics_watch_interval_ms=200)
    picture = {"group_id": "g", "group_type": "consumer", "metadata_version": 3}
    topics = [{"name": "s"}, {"name": "u", "topic_id": "of-before", "partitions": 2}]
    with closing(KafkaProducer(**config)) as producer:
        producer.send(
            settings.topics_groups, key=b"g", value=json.dumps(picture | {"topics": topics}).encode()
        ).get(60)
    registry = CollectorRegistry()
    name = "group_coordinator_topics_"
    with (
        Reader(config, settings.topics_requests) as requests,
        TopicWatcher(settings, config, Report(registry), lambda: True),
    ):
        wait_for(lambda: samples(registry)[f"{name}unseen",] == 1)
        assert samples(registry)[f"{name}watched",] == 2
        began = samples(registry)[f"{name}last_watched_timestamp_seconds",]
        # Several rounds, in which it is the same.
        wait_for(lambda: samples(registry)[f"{name}last_watched_timestamp_seconds",] > began + 2)
        assert [record for record in requests.poll(1_000) if b"topic_metadata" in record.value] == []
        secured.grant("coordinator", [*COORDINATOR, seen, unseen])
        told = requests.first(lambda value: value["api"] == "topic_metadata")
        assert (told["based_on"], told["gone"]) == (3, ["u"])
        wait_for(lambda: samples(registry)[f"{name}unseen",] == 0)
    said = [record.getMessage() for record in caplog.records if "may not be seen" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("1 topics of consumer groups may not be seen, such as u: grant Describe")


@pytest.mark.usefixtures("topics")
def test_topics_that_are_there_need_no_right_to_create(secured: SecuredBroker) -> None:
    secured.grant(
        "coordinator", [it for it in COORDINATOR if it.pattern.resource_type is not ResourceType.CLUSTER]
    )

    assert prepare(secured, create_topics=True)["coordinator.clock"] == 1


def test_the_right_to_create_is_missed(secured: SecuredBroker) -> None:
    named = {f"topics_{it}": f"absent.{it}" for it in ("requests", "clock", "responses", "groups")}
    named |= {f"topics_{it}": f"absent.{it}" for it in ("offsets", "events", "rejected")}
    names = {f"coordinator.{it.removeprefix('topics_')}": topic for it, topic in named.items()}
    secured.grant(
        "coordinator",
        [
            it
            for it in rights_of("The coordinator", names)
            if it.pattern.resource_type is not ResourceType.CLUSTER
        ],
    )

    assert refusal(secured, create_topics=True, **named) == (
        "rights are missing: Create on the cluster, to create absent.requests, absent.clock, "
        "absent.responses, absent.groups, absent.offsets, absent.events, absent.rejected. "
        "Grant it, or create them yourself"
    )


def test_without_any_right_all_are_named_at_once(secured: SecuredBroker) -> None:
    secured.grant("coordinator", [])

    message = refusal(secured)

    # Whether configs may be described is not told to who may not look at the topic.
    assert message == (
        "rights are missing: Read on topic coordinator.requests, Read and Write on topic coordinator.clock, "
        "Write on topic coordinator.responses, Read and Write on topic coordinator.groups, "
        "Read and Write on topic coordinator.offsets, Write on topic coordinator.events, "
        "Write on topic coordinator.rejected. "
        "Grant them with kafka-acls.sh; docs/security.md lists all that the coordinator needs"
    )


# -- who is not let in -----------------------------------------------------------------------------------

not_let_in = pytest.mark.filterwarnings("ignore:unclosed <:ResourceWarning")


@not_let_in
def test_a_wrong_password(
    secured: SecuredBroker, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    # As the command line has it, so that reconnects are not everybody's news.
    caplog.set_level(logging.CRITICAL, "kafka")
    wrong = secured.java_properties("coordinator", "guessed")
    begun = time.monotonic()

    message = refusal(secured, wrong)

    assert message.startswith(f"cannot reach Kafka at {secured.bootstrap_servers}: ")
    # Kafka's own words, or kafka-python's where it has lost them; and what to look at.
    assert "invalid credentials" in message or "socket disconnected" in message
    assert "kafka.sasl.jaas.config" in message
    assert "guessed" not in message
    assert time.monotonic() - begun < 10
    assert capfd.readouterr() == ("", "")


@not_let_in
def test_a_broker_whose_certificate_nobody_vouches_for(secured: SecuredBroker) -> None:
    """Without a truststore the authorities of the system are trusted, which know nothing of the test's."""
    java = properties(secured)
    del java["ssl.truststore.type"], java["ssl.truststore.location"]
    begun = time.monotonic()

    message = refusal(secured, java)

    assert message.startswith(f"cannot reach Kafka at {secured.bootstrap_servers}: ")
    assert "CERTIFICATE_VERIFY_FAILED" in message
    assert "; kafka.ssl.truststore.location has to have the authority" in message
    assert time.monotonic() - begun < 10


@not_let_in
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_the_protocol_of_another_port(secured: SecuredBroker, protocol: str) -> None:
    assert "kafka.security.protocol" in refusal(secured, properties(secured, security_protocol=protocol))


@not_let_in
def test_files_that_cannot_be_used(secured: SecuredBroker, tmp_path: Path) -> None:
    key = make_client_key(tmp_path, "the-right-one")
    keystore = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(key)}
    empty = tmp_path / "empty.pem"
    empty.touch()
    unreadable = (
        "kafka.ssl.keystore.location has no certificate with a key that kafka.ssl.key.password decrypts"
    )

    # Without a password, too: nobody is asked for it.
    for given in ({"ssl_key_password": "wrong"}, {}):
        assert refusal(secured, properties(secured, **keystore, **given)).endswith(f"; {unreadable}")
    assert refusal(secured, properties(secured, ssl_truststore_location=str(empty))).endswith(
        "; kafka.ssl.truststore.location has no certificates that can be read"
    )


@not_let_in
def test_a_mechanism_that_is_not_enabled(secured: SecuredBroker) -> None:
    message = refusal(secured, properties(secured, sasl_mechanism="SCRAM-SHA-256"))

    # Kafka's own words are lost at times, as with a wrong password.
    assert "UnsupportedSaslMechanism" in message or "socket disconnected" in message
    assert "kafka.sasl.mechanism" in message
