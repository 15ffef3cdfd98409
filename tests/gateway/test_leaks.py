"""No byte that a client is sent names a broker's own address, whatever the client does."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.structs import TopicPartition

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import Process
from tests.gateway.clients import console_consumer
from tests.gateway.cluster import another_of
from tests.gateway.conftest import TENANTS, Running, start_gateway
from tests.gateway.test_listeners import PASSWORD
from tests.patience import wait_for
from tests.security.certificates import make_client_key

pytestmark = pytest.mark.spark


def run(address: str, name: str, **security: Any) -> None:
    """What an administrator, a producer with transactions and a consumer do.

    `name`: of its topic and its group. A topic that is made anew has none of the records that its group has
    committed.
    """
    given = {"bootstrap_servers": address, **security}
    with closing(KafkaAdminClient(**given)) as admin:
        admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
        with closing(KafkaProducer(transactional_id=name, **given)) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for number in range(10):
                producer.send(name, b"%d" % number)
            producer.commit_transaction()
        member = KafkaConsumer(name, group_id=name, auto_offset_reset="earliest", **given)
        with closing(member):
            found: list[object] = []
            wait_for(lambda: found.extend(member.poll(timeout_ms=200).values()) or found)
            member.commit()
            admin.describe_groups([name])
        admin.list_groups()
        admin.describe_cluster()
        admin.describe_topics([name])
        admin.delete_topics([name])


def check(running: Running, heard: bytearray) -> None:
    port = running.broker.rpartition(":")[2]
    assert len(heard) > 1_000
    assert int(port).to_bytes(4) not in heard
    assert port.encode() not in heard


def test_no_byte_names_the_broker(running: Running, heard: bytearray) -> None:
    run(running.gateway, "leaks")
    check(running, heard)
    port = running.broker.rpartition(":")[2]
    heard.clear()
    with closing(KafkaAdminClient(bootstrap_servers=running.broker)) as admin:
        admin.describe_cluster()
    assert int(port).to_bytes(4) in heard, "the test would see it"


# -- one port, and a name for each broker ----------------------------------------------------------------

BOOTSTRAP, NODE = "kafka.gateway.test", "broker-1.kafka.gateway.test"


def with_names(certificate: Path) -> list[str]:
    settings = {
        "tls.certificate": str(certificate),
        "tls.key.password": PASSWORD,
        "advertised.nodes": NODE.replace("1", "{node}"),
    }
    return [word for name, it in settings.items() for word in ("--set", f"gateway.{name}={it}")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names under `BOOTSTRAP` that kafka-python looks up. All of them are this machine's."""
    names: set[str] = set()
    look_up = socket.getaddrinfo

    def looked_up(host: str, *arguments: Any, **options: Any) -> Any:
        if not host.endswith(BOOTSTRAP):
            return look_up(host, *arguments, **options)
        names.add(host)
        return look_up("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    return names


@pytest.mark.verify
def test_names_tell_brokers_apart_and_no_byte_names_the_broker(
    running: Running,
    heard: bytearray,
    asked: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate = make_client_key(tmp_path, PASSWORD, BOOTSTRAP, NODE)
    arguments = with_names(certificate)
    with ExitStack() as stack:
        process = start_gateway(
            tmp_path, running.broker, running.job.topics, *TENANTS, *arguments, advertised=BOOTSTRAP
        )
        stack.callback(process.kill)
        address = process.wait_for("clients find the gateway at ")
        context = ssl.create_default_context(cafile=certificate)
        run(address, "leaks-by-name", security_protocol="SSL", ssl_context=context)
        assert asked == {BOOTSTRAP, NODE}
        check(running, heard)

        # Java's client sends the names of its own accord, and checks the certificate for them.
        hosts = tmp_path / "hosts"
        hosts.write_text(f"127.0.0.1 {BOOTSTRAP} {NODE}\n")
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djdk.net.hosts.file={hosts}")
        trusted = tmp_path / "trusted.pem"
        trusted.write_text("-----BEGIN CERT" + certificate.read_text().partition("-----BEGIN CERT")[2])
        secure = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
        }
        with closing(KafkaAdminClient(bootstrap_servers=running.broker)) as admin:
            admin.create_topics([NewTopic("names", num_partitions=1, replication_factor=1)])
        with closing(KafkaProducer(bootstrap_servers=running.broker)) as producer:
            producer.send("names", b"read by a name").get()
        with console_consumer(address, "names", "names", **secure) as consumer:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == "read by a name\n"
        process.terminate()
        assert process.exit_code() == 0, process.said


# -- two brokers -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EmbeddedBroker]]:
    """A cluster with the topics that a gateway waits for, and one that has a partition at each broker."""
    directory = tmp_path_factory.mktemp("two")
    with EmbeddedBroker(directory / "1") as first, another_of(directory, first, 2) as second:
        with closing(KafkaAdminClient(bootstrap_servers=first.bootstrap_servers)) as admin:
            wait_for(lambda: len(admin.describe_cluster()["brokers"]) == 2)
            names = [*(f"coordinator.{each}" for each in ("requests", "responses", "groups")), "spread"]
            admin.create_topics([NewTopic(each, num_partitions=2, replication_factor=1) for each in names])
        yield [first, second]


@pytest.mark.verify
@pytest.mark.parametrize("has_names", [False, True])
def test_each_of_two_brokers_is_reached_and_none_is_named(
    two_brokers: list[EmbeddedBroker], heard: bytearray, asked: set[str], tmp_path: Path, has_names: bool
) -> None:
    bootstrap = two_brokers[0].bootstrap_servers
    ports = [int(each.bootstrap_servers.rpartition(":")[2]) for each in two_brokers]
    nodes = [NODE, NODE.replace("1", "2")]
    certificate = make_client_key(tmp_path, PASSWORD, BOOTSTRAP, *nodes)
    process = Process(
        tmp_path,
        *("gateway", "--bootstrap-server", bootstrap, "--listen", "127.0.0.1:0", "--metrics-port", "0"),
        *("--advertised-host", BOOTSTRAP),
        *(with_names(certificate) if has_names else []),
    )
    security: dict[str, Any] = {}
    if has_names:
        context = ssl.create_default_context(cafile=certificate)
        security = {"security_protocol": "SSL", "ssl_context": context}
    try:
        given = {"bootstrap_servers": process.wait_for("clients find the gateway at "), **security}
        with closing(KafkaAdminClient(**given)) as admin:
            (topic,) = admin.describe_topics(["spread"])
            assert {each["leader_id"] for each in topic["partitions"]} == {1, 2}
        # A broker refuses records, and gives none, of a partition that another one leads.
        with closing(KafkaProducer(**given)) as producer:
            for partition in (0, 1):
                producer.send("spread", b"%d" % has_names, partition=partition).get()
        with closing(KafkaConsumer(**given, auto_offset_reset="earliest")) as consumer:
            consumer.assign([TopicPartition("spread", each) for each in (0, 1)])
            found: list[tuple[int, bytes]] = []

            def has_both() -> bool:
                for records in consumer.poll(timeout_ms=200).values():
                    found.extend((each.partition, each.value) for each in records)
                return {(0, b"%d" % has_names), (1, b"%d" % has_names)} <= set(found)

            wait_for(has_both)
        assert asked == ({BOOTSTRAP, *nodes} if has_names else {BOOTSTRAP})
        for port in ports:
            assert port.to_bytes(4) not in heard
            assert str(port).encode() not in heard
        process.terminate()
        assert process.exit_code() == 0, process.said
    finally:
        process.kill()
