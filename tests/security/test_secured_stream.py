"""The whole coordinator on a broker that allows only what the guide lists, with tenants kept apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError, for_code
from kafka.structs import OffsetAndMetadata

from group_coordinator import AdminClient, GroupConsumer, GroupMember
from group_coordinator.client.lag_log import LagLog
from group_coordinator.client.since import partitions_of
from tests.commands.job import Job
from tests.patience import PATIENCE_S, wait_for
from tests.security.conftest import gateway_before, password_of, write_settings
from tests.security.rights import rights_of
from tests.topics import Reader

if TYPE_CHECKING:
    from tests.security.secured_broker import SecuredBroker

pytestmark = pytest.mark.spark

BROKEN_PIPE = "BrokenPipeError: [Errno 32] Broken pipe"

TENANTS = {f"{tenant}-": f"coordinator.responses.{tenant}" for tenant in ("tenant-a", "tenant-b")}
OWN = {"coordinator.responses": "coordinator.responses.tenant-a"}
OTHERS = {"coordinator.responses": "coordinator.responses.tenant-b"}
# What nobody but the coordinator and its operators has to do with.
INTERNAL = ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")


@pytest.fixture(scope="module")
def job(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """A coordinator, and everybody, with the rights that the guide lists and no others."""
    of_coordinator = "The coordinator"
    everywhere = [it for names in ({}, OWN, OTHERS) for it in rights_of(of_coordinator, names)]
    secured.grant("coordinator", everywhere)
    secured.grant("member", [*rights_of("A member"), *rights_of("A consumer")])
    secured.grant("operator", rights_of("An operator"))
    secured.grant("tenant-a", rights_of("A member", OWN))
    secured.grant("tenant-b", rights_of("A member", OTHERS))
    secured.grant("stranger", [])

    directory = tmp_path_factory.mktemp("job")
    java = secured.java_properties("coordinator", password_of("coordinator"))
    settings = {f"kafka.{name}": value for name, value in java.items()}
    settings |= {f"responses.topics.{prefix}": topic for prefix, topic in TENANTS.items()}
    file = write_settings(directory / "coordinator.toml", settings)
    job = Job(secured.bootstrap_servers, directory, "coordinator", "--config", str(file))
    try:
        job.wait_for("the coordinator is running")
        yield job
        job.terminate()
        assert job.exit_code() == 0
        # A batch that takes long is cancelled, and pyspark's daemon tells of its worker's broken pipe.
        assert [it for it in job.said if "uthoriz" in it] == []
        assert "\n".join(job.said).count("Traceback") == [*job.said].count(BROKEN_PIPE)
    finally:
        job.kill()


@pytest.fixture
def config_of(secured: SecuredBroker, job: Job) -> Callable[[str], dict[str, Any]]:
    """kafka-python's settings of a user."""
    return lambda user: secured.client_config(user, password_of(user))


def operators_view(secured: SecuredBroker) -> Reader:
    """All response topics from now on."""
    topics = ("coordinator.responses", *TENANTS.values())
    return Reader({"bootstrap_servers": secured.open_servers}, *topics, from_now_on=True)


def answers_to(client_id: str, reader: Reader, count: int) -> list[Any]:
    """The records under that client id, once there are as many."""

    def found() -> list[Any]:
        return [record for record in reader.records if record.key == client_id.encode()]

    wait_for(lambda: len(found()) >= count, meanwhile=reader.poll)
    return found()


# -- the rights that the guide lists are enough ----------------------------------------------------------


def test_a_member_works_and_commits(config_of: Callable[[str], dict[str, Any]]) -> None:
    with GroupMember(group_id="workers", **config_of("member")) as member:
        member.subscribe(units=["eu", "us"])
        wait_for(lambda: member.assignment == {"eu", "us"}, meanwhile=lambda: member.poll(timeout_ms=100))
        member.commit({"eu": 42})

        assert member.committed(["eu"])["eu"].offset == 42


def test_a_consumer_reads_and_commits(
    secured: SecuredBroker, config_of: Callable[[str], dict[str, Any]]
) -> None:
    secured.operator.create_topics([NewTopic("orders", num_partitions=1, replication_factor=1)])
    producer = KafkaProducer(bootstrap_servers=secured.open_servers)
    producer.send("orders", b"an order").get(PATIENCE_S)
    producer.close()
    partition = TopicPartition("orders", 0)

    with GroupConsumer(
        "orders", group_id="billing", auto_offset_reset="earliest", **config_of("member")
    ) as consumer:
        found: list[bytes] = []

        def read() -> bool:
            found.extend(it.value for records in consumer.poll(100).values() for it in records)
            return bool(found)

        wait_for(read)
        consumer.commit()

        assert found == [b"an order"]
        assert consumer.committed(partition) == 1


def test_kafkas_own_consumer_logs_in_through_the_gateway(
    secured: SecuredBroker, job: Job, tmp_path: Path
) -> None:
    secured.grant("reader", rights_of("A client of the gateway", {"orders": "parcels", "billing": "posted"}))
    secured.operator.create_topics([NewTopic("parcels", num_partitions=1, replication_factor=1)])
    partition = TopicPartition("parcels", 0)
    own = secured.client_config("reader", password_of("reader"))
    with gateway_before(secured, tmp_path, job.topics) as gateway:
        own |= {
            "bootstrap_servers": gateway.wait_for("clients find the gateway at "),
            "security_protocol": "SASL_PLAINTEXT",
        }
        with closing(KafkaConsumer("parcels", group_id="posted", **own)) as consumer:
            wait_for(consumer.assignment, meanwhile=lambda: consumer.poll(timeout_ms=100))
            # Otherwise `committed` would share the fetch by which the consumer finds its position.
            assert consumer.position(partition) == 0
            consumer.commit({partition: OffsetAndMetadata(7, "", -1)})
            assert consumer.committed(partition) == 7
        with (
            closing(KafkaConsumer(group_id="another", **own)) as consumer,
            pytest.raises(GroupAuthorizationFailedError),
        ):
            consumer.committed(partition)
    # The broker has said whose login it is, and every event of a request tells it.
    with Reader({"bootstrap_servers": secured.open_servers}, job.topics["events"]) as events:
        events.first(lambda each: each["group_id"] == "posted" and each["event"] == "offsets_committed")
        told = [each for each in events.values() if each["group_id"] == "posted" and each["request_id"]]
    assert {each.get("principal") for each in told} == {"reader"}
    assert {"member_added", "offsets_committed"} < {each["event"] for each in told}


def test_an_operator_sees_and_changes_groups(config_of: Callable[[str], dict[str, Any]]) -> None:
    partition = TopicPartition("orders", 0)
    with AdminClient(**config_of("operator")) as admin:
        admin.alter_group_offsets("by-hand", {partition: OffsetAndMetadata(7, "", -1)})
        wait_for(lambda: "by-hand" in [group.group_id for group in admin.list_groups()])

        assert admin.list_group_offsets(["by-hand"])["by-hand"][partition].offset == 7


def test_measurements_that_may_be_described_but_not_read_are_none(
    config_of: Callable[[str], dict[str, Any]],
) -> None:
    # An operator may describe every topic, and has no right to read this one.
    events, config = "coordinator.events", config_of("operator")
    with AdminClient(**config) as admin:
        admin.alter_group_offsets("by-hand", {TopicPartition("orders", 0): OffsetAndMetadata(7, "", -1)})
    with closing(KafkaConsumer(**config)) as consumer:
        partitions = partitions_of(consumer, events)
        wait_for(lambda: sum(consumer.end_offsets(partitions).values()))
    with LagLog(events, config) as lags:
        assert lags.newest() == {}


# -- others have none ------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["requests", "responses"])
def test_a_stranger_gets_no_membership(config_of: Callable[[str], dict[str, Any]], topic: str) -> None:
    names = {f"{topic}_topic".replace("requests", "request").replace("responses", "response"): "x"}
    with pytest.raises(TopicAuthorizationFailedError):
        GroupMember(group_id="workers", **config_of("stranger"), **names)


def readable(config: dict[str, Any], topic: str) -> bool:
    """Whether the first partition of `topic`, which has a record, gives it away."""
    admin = KafkaAdminClient(**config)
    (described,) = admin.describe_topics([topic])
    admin.close()
    if for_code(described["error_code"]) is TopicAuthorizationFailedError:
        return False  # not even who leads the partition is told
    consumer = KafkaConsumer(**config, group_id=None, enable_auto_commit=False)
    try:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 0)
        wait_for(lambda: bool(consumer.poll(timeout_ms=200)))
    except TopicAuthorizationFailedError:
        return False
    finally:
        consumer.close(autocommit=False)
    return True


def test_a_tenant_reads_its_own_responses_only(
    secured: SecuredBroker, config_of: Callable[[str], dict[str, Any]]
) -> None:
    topics = [*(f"coordinator.{it}" for it in INTERNAL), *TENANTS.values()]
    producer = KafkaProducer(bootstrap_servers=secured.open_servers)
    producer.send(TENANTS["tenant-a-"], b"{}", key=b"k", partition=0).get(PATIENCE_S)
    producer.close()

    assert [it for it in topics if readable(config_of("tenant-a"), it)] == [TENANTS["tenant-a-"]]
    assert [it for it in topics if readable(config_of("stranger"), it)] == []


def test_a_tenant_takes_part(secured: SecuredBroker, config_of: Callable[[str], dict[str, Any]]) -> None:
    own = TENANTS["tenant-a-"]
    with (
        operators_view(secured) as reader,
        GroupMember(
            group_id="tenant-a-jobs", client_id="of-a", response_topic=own, **config_of("tenant-a")
        ) as member,
    ):
        member.subscribe(units=["eu"])
        wait_for(lambda: member.assignment == {"eu"}, meanwhile=lambda: member.poll(timeout_ms=100))

        assert {record.topic for record in answers_to("of-a", reader, 3)} == {own}  # two joins and a sync


def test_an_operator_asks_about_groups_of_all_tenants(config_of: Callable[[str], dict[str, Any]]) -> None:
    groups = [f"{prefix}asked" for prefix in (*TENANTS, "")]
    everywhere = ["coordinator.responses", *TENANTS.values()]
    with AdminClient(response_topic=everywhere, request_timeout_ms=60_000, **config_of("operator")) as admin:
        described = admin.describe_groups(groups)

    assert {group_id: described[group_id].group_state for group_id in groups} == dict.fromkeys(groups, "Dead")


def send(config: dict[str, Any], *records: tuple[bytes | None, dict[str, Any]]) -> None:
    producer = KafkaProducer(**config)
    for key, request in records:
        producer.send("coordinator.requests", key=key, value=json.dumps(request).encode()).get(PATIENCE_S)
    producer.close()


def test_what_is_asked_about_another_tenants_group_is_answered_to_that_tenant(
    secured: SecuredBroker, config_of: Callable[[str], dict[str, Any]]
) -> None:
    """Whatever the sender says about itself, and whether it can be read or not."""
    group, victim = "tenant-b-jobs", "somebody-of-tenant-b"
    join = {
        "api_version": 3,  # makes a member at once
        "session_timeout_ms": 6_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": ""}],
    }
    asked = [
        {"api": "describe_group"},
        {"api": "find_coordinator"},
        {"api": "offset_fetch"},
        {"api": "heartbeat", "member_id": "guessed", "generation_id": 1},
        {"api": "join_group", **join},
        {"api": "join_group", "surplus": 1},  # not a request
        {"api": "describe_group", "group_id": "tenant-a-jobs"},  # not the record's key
    ]
    common = {"client_id": victim, "group_id": group, "reply_partition": 0}
    requests = [common | {"request_id": str(number)} | fields for number, fields in enumerate(asked)]
    with operators_view(secured) as reader:
        send(config_of("tenant-a"), *((group.encode(), request) for request in requests))
        answers = answers_to(victim, reader, len(asked))

    assert {(record.topic, record.partition) for record in answers} == {(TENANTS["tenant-b-"], 0)}
    found = sorted(json.loads(record.value)["request_id"] for record in answers)
    assert found == [request["request_id"] for request in requests]


def test_what_has_no_group_is_answered_to_no_tenant(
    secured: SecuredBroker, config_of: Callable[[str], dict[str, Any]]
) -> None:
    request = {
        "api": "describe_group",
        "request_id": "r",
        "client_id": "keyless",
        "group_id": "tenant-b-jobs",
    }
    with operators_view(secured) as reader:
        send(config_of("tenant-a"), (None, request))
        answers = answers_to("keyless", reader, 1)

    assert [record.topic for record in answers] == ["coordinator.responses"]
