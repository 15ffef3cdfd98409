"""More that clients do through the gateway: strategies, patterns, positions, producers, admin calls."""

from __future__ import annotations

import re
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.gateway.clients import Librdkafka, VerifiableConsumer, kafka_python, polling, run
from tests.gateway.conftest import Running
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.spark, pytest.mark.verify]

TOPIC = "many-orders"
OTHER = "other-orders"
NEW = "new-orders"
RECORDS = 60
PARTITIONS = 6
JAVA = "org.apache.kafka.clients.consumer."


@pytest.fixture(scope="module", autouse=True)
def _topic(running: Running) -> None:
    """Made by librdkafka's admin client and filled by its idempotent producer."""
    admin = AdminClient({"bootstrap.servers": running.gateway})
    for made in admin.create_topics(
        [NewTopic(TOPIC, PARTITIONS), NewTopic("many-more", 1), NewTopic(OTHER, 1), NewTopic(NEW, 1)]
    ).values():
        made.result(PATIENCE_S)
    producer = confluent_kafka.Producer({"bootstrap.servers": running.gateway, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def shares_are(members: list[Any], share: int) -> bool:
    return all(len(each.assignment()) == share for each in members)


def numbers(member: Any) -> set[int]:
    return {each if isinstance(each, int) else each.partition for each in member.assignment()}


@pytest.mark.parametrize(
    ("strategy", "in_java", "in_python"),
    [
        ("range", "RangeAssignor", RangePartitionAssignor),
        ("roundrobin", "RoundRobinAssignor", RoundRobinPartitionAssignor),
        ("sticky", "StickyAssignor", StickyPartitionAssignor),
        ("cooperative-sticky", "CooperativeStickyAssignor", CooperativeStickyAssignor),
    ],
)
def test_three_clients_agree_by_each_strategy_and_one_comes_back(
    running: Running, tmp_path: Path, strategy: str, in_java: str, in_python: type
) -> None:
    """librdkafka has no `sticky`: two share then."""
    group, java_strategy = f"many-{strategy}", ("--assignment-strategy", JAVA + in_java)
    with ExitStack() as stack:
        members: list[Any] = [
            stack.enter_context(
                closing(
                    kafka_python(running.gateway, [TOPIC], group, partition_assignment_strategy=[in_python])
                )
            )
        ]
        if strategy != "sticky":
            rdkafka = Librdkafka(running.gateway, [TOPIC], group, partition_assignment_strategy=strategy)
            members.append(stack.enter_context(closing(rdkafka)))
        for end in ("killed", "closed"):
            java = VerifiableConsumer(tmp_path / end, running.gateway, TOPIC, group, *java_strategy)
            with java:
                everybody = [*members, java]
                until = polling(*everybody)
                share = PARTITIONS // len(everybody)
                until(partial(shares_are, everybody, share))
                assert set().union(*map(numbers, everybody)) == set(range(PARTITIONS))
                (java.kill if end == "killed" else java.close)()
            until = polling(*members)
            until(lambda: sum(len(each.assignment()) for each in members) == PARTITIONS)


def test_patterns_positions_and_pauses(running: Running) -> None:
    with closing(Librdkafka(running.gateway, ["^many-"], "pattern")) as member:
        until = polling(member)
        until(lambda: {each.topic for each in member.consumer.assignment()} == {TOPIC, "many-more"})
        until(lambda: len(member.read) == RECORDS)
        here = confluent_kafka.TopicPartition(TOPIC, 0, 0)
        member.consumer.pause([here])
        member.consumer.seek(here)
        # It is paused: of all that is to be read only what comes in another partition comes.
        producer = confluent_kafka.Producer({"bootstrap.servers": running.gateway})
        producer.produce(TOPIC, b"more", partition=1)
        until(lambda: b"more" in member.read)
        assert len(member.read) == RECORDS + 1
        member.consumer.resume([here])
        until(lambda: len(member.read) == RECORDS + 1 + RECORDS // PARTITIONS)
        member.consumer.commit(asynchronous=True)
        partitions = [confluent_kafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        until(lambda: sum(each.offset for each in member.consumer.committed(partitions)) == RECORDS + 1)


def test_a_transaction_without_offsets(running: Running) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": running.gateway, "transactional.id": "many"})
    producer.init_transactions(PATIENCE_S)
    for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(OTHER, value)
        producer.flush(PATIENCE_S)
        end(PATIENCE_S)
    with closing(Librdkafka(running.gateway, [OTHER], "tx", isolation_level="read_committed")) as member:
        polling(member)(lambda: member.read)
        assert member.read == [b"committed"]


def test_javas_producer_and_admin_client(running: Running) -> None:
    at = ("--bootstrap-server", running.gateway)
    told = run("VerifiableProducer", *at, "--topic", OTHER, "--max-messages", "10", "--acks", "-1")
    assert re.search(r'"sent":10,"acked":10', told.stdout), told.stderr
    supported = [
        word
        for name in (
            "offsets-for-times",
            "cluster-id",
            "create-topics",
            "describe-acls",
            "describe-configs",
            "idempotent-producer",
        )
        for word in (f"--{name}-supported", "True")
    ]
    told = run(
        "ClientCompatibilityTest",
        *(*at, "--topic", NEW, *supported),
        *("--num-cluster-nodes", "1", "--expect-record-too-large-exception", "False"),
    )
    assert told.returncode == 0, told.stdout + told.stderr
    # The broker has no authorizer, and it is the broker that says so.
    told = run("AclCommand", *at, "--list")
    assert "No Authorizer is configured on the broker" in told.stdout + told.stderr
    admin = AdminClient({"bootstrap.servers": running.gateway})
    resource = ConfigResource(ResourceType.TOPIC, TOPIC)
    assert admin.describe_configs([resource])[resource].result(PATIENCE_S)["cleanup.policy"].value == "delete"
    admin.delete_topics([OTHER])[OTHER].result(PATIENCE_S)
