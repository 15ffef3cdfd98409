"""Clients that know nothing of this project, with the gateway as their bootstrap server."""

from __future__ import annotations

import random
import re
import socket
from contextlib import ExitStack, closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.coordinator.assignors.abstract import ConsumerProtocolSubscription
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.admin.groups import DeleteGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest

from group_coordinator import GroupConsumer
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.gateway import codec
from group_coordinator.gateway.apis import APIS
from tests.gateway.clients import Librdkafka, console_consumer, groups_tool, kafka_python, polling
from tests.gateway.conftest import TENANT, TENANTS, Running, start_gateway
from tests.patience import PATIENCE_S, wait_for

pytestmark = pytest.mark.spark

TOPIC = "gateway-orders"
RECORDS = 40


@pytest.fixture(scope="module", autouse=True)
def _topic(running: Running) -> None:
    """Made and filled through the gateway."""
    with closing(KafkaAdminClient(bootstrap_servers=running.gateway)) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=4, replication_factor=1)])
    with closing(KafkaProducer(bootstrap_servers=running.gateway, acks="all")) as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, b"%d" % number, partition=number % 4)
        producer.flush()


def test_a_consumer_reads_commits_and_leaves(running: Running) -> None:
    with closing(kafka_python(running.gateway, [TOPIC], "python")) as first:
        found: list[bytes] = []
        while len(found) < RECORDS:
            for records in first.poll(timeout_ms=500).values():
                found += [record.value for record in records]
        first.commit()
        assert sorted(found, key=int) == [b"%d" % number for number in range(RECORDS)]
        assert sum(first.committed(each) for each in first.assignment()) == RECORDS
    with closing(KafkaAdminClient(bootstrap_servers=running.gateway)) as admin:
        described = admin.describe_groups(["python"])
    assert "Empty" in str(described)


def test_members_of_all_kinds_share_one_group(running: Running) -> None:
    """Unmodified Kafka consumers in Python, C and Java, and one of this project's own."""
    own = GroupConsumer(
        TOPIC,
        bootstrap_servers=running.broker,
        group_id="mixed",
        request_topic=running.job.topics["requests"],
        response_topic=running.job.topics["responses"],
        assignors=["range"],
        session_timeout_ms=10_000,
        heartbeat_interval_ms=500,
    )
    theirs = kafka_python(running.gateway, [TOPIC], "mixed")
    rdkafka = Librdkafka(running.gateway, [TOPIC], "mixed", partition_assignment_strategy="range")
    with closing(own), closing(theirs), closing(rdkafka):
        members = (own, theirs, rdkafka)
        until = polling(*members)
        until(lambda: sorted(len(each.assignment()) for each in members) == [1, 1, 2])
        with console_consumer(running.gateway, TOPIC, "mixed"):
            until(lambda: [len(each.assignment()) for each in members] == [1, 1, 1])
            told = groups_tool(running.gateway, "--describe", "--group", "mixed", "--members")
            assert len(re.findall(r"^mixed ", told, re.MULTILINE)) == 4
            owned = {each.partition for member in (own, theirs) for each in member.assignment()}
            assert len(owned | rdkafka.assignment()) == 3
        # It was killed, and could not leave: its session ends.
        until(lambda: sorted(len(each.assignment()) for each in members) == [1, 1, 2])


class LargeAssignor(RangePartitionAssignor):  # type: ignore[misc]  # it has no types
    """Each member says so much that the leader, and whoever has the group described, is told megabytes."""

    name = "large"

    def __init__(self, user_data: bytes) -> None:
        self._user_data = user_data
        self.told: list[bytes] = []

    def metadata(self, topics: list[str]) -> ConsumerProtocolSubscription:
        return ConsumerProtocolSubscription(self.version, list(topics), self._user_data)

    def assign(self, cluster: Any, members: list[Any]) -> Any:
        self.told = sorted(bytes(each.metadata.user_data) for each in members)
        return super().assign(cluster, members)


def test_answers_as_large_as_a_group_may_be_arrive_unharmed(running: Running) -> None:
    count, most = 6, GroupConfig().max_group_bytes
    given = sorted(random.Random(number).randbytes(most * 99 // 100 // count) for number in range(count))
    assignors = [LargeAssignor(each) for each in given]
    config = {"session_timeout_ms": 60_000, "enable_auto_commit": False}
    with ExitStack() as stack:
        members = [
            kafka_python(running.gateway, [TOPIC], "large", partition_assignment_strategy=[each], **config)
            for each in assignors
        ]
        for each in members:
            stack.callback(each.close)
        until = polling(*members)
        until(lambda: given in [each.told for each in assignors])
        admin = stack.enter_context(closing(KafkaAdminClient(bootstrap_servers=running.gateway)))

        def described() -> list[str] | None:
            group = admin.describe_groups(["large"])["large"]
            if group["group_state"] != "Stable":
                return None
            return sorted(each["member_metadata"]["user_data"] for each in group["members"])

        # kafka-python shows bytes so.
        shown = sorted(each.decode(errors="backslashreplace") for each in given)
        until(lambda: described() == shown)


def test_librdkafka_is_static_and_cooperative_beside_java(running: Running) -> None:
    def static() -> Librdkafka:
        # Kafka's tool may take ten seconds to start, and the session is not to end meanwhile.
        return Librdkafka(
            running.gateway,
            [TOPIC],
            "c",
            partition_assignment_strategy="cooperative-sticky",
            group_instance_id="one",
            session_timeout_ms=60_000,
        )

    every = {0, 1, 2, 3}
    strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    with closing(static()) as member:
        until = polling(member)
        until(lambda: len(member.read) == RECORDS)
        member.consumer.commit(asynchronous=False)
        assert member.committed() == dict.fromkeys(every, RECORDS // 4)
        # Of its partitions it gives up those that the other gets, and no more.
        with console_consumer(
            running.gateway, TOPIC, "c", **{"partition.assignment.strategy": strategy}
        ) as java:
            until(lambda: len(member.assignment()) == 2)
            assert member.moves[:2] == [("assigned", every), ("revoked", every - member.assignment())]
            # It leaves, and nobody waits for its session.
            java.terminate()
            until(lambda: member.assignment() == every)
        assert "lost" not in dict(member.moves)
    # A static member that closes keeps its place: it has its partitions again, and rereads nothing.
    assert re.search(
        r"^c +one-\S+ +one ",
        groups_tool(running.gateway, "--describe", "--group", "c", "--members"),
        re.MULTILINE,
    )
    with closing(static()) as again:
        polling(again)(lambda: again.assignment() == every)
        assert again.committed() == dict.fromkeys(every, RECORDS // 4)
        assert again.read == []


@pytest.mark.verify
def test_kafkas_own_tool_cannot_tell_the_difference(running: Running) -> None:
    with closing(kafka_python(running.gateway, [TOPIC], "tools")) as member:
        until = polling(member)
        until(member.assignment)
        until(lambda: all(member.position(each) == RECORDS / 4 for each in member.assignment()))
        member.commit()
        told = groups_tool(running.gateway, "--describe", "--group", "tools", "--state")
        host, _, _ = running.gateway.partition(":")
        assert re.search(rf"^tools +{host}:\d+ +\(\d+\) +range +Stable +1", told, re.MULTILINE), told
    assert "tools" in groups_tool(running.gateway, "--list").split()
    told = groups_tool(running.gateway, "--describe", "--group", "tools")
    assert re.findall(rf"^tools +{TOPIC} +(\d) +(\d+) +(\d+) +(\d+)", told, re.MULTILINE) == [
        (str(partition), "10", "10", "0") for partition in range(4)
    ]
    groups_tool(
        running.gateway, "--group", "tools", "--topic", TOPIC, "--reset-offsets", "--to-earliest", "--execute"
    )
    told = groups_tool(running.gateway, "--describe", "--group", "tools")
    assert re.findall(rf"^tools +{TOPIC} +\d +(\d+) ", told, re.MULTILINE) == ["0"] * 4
    assert "Successful" in groups_tool(
        running.gateway, "--delete-offsets", "--group", "tools", "--topic", TOPIC
    )
    assert "was successful" in groups_tool(running.gateway, "--delete", "--group", "tools")
    assert "tools" not in groups_tool(running.gateway, "--list").split()


def test_what_it_counts(running: Running) -> None:
    found = running.process.metrics()
    prefix = "group_coordinator_gateway_"
    assert found[f"{prefix}requests_total", "JoinGroup", "stream"] > 0
    assert found[f"{prefix}requests_total", "Fetch", "passed"] > 0
    assert found[f"{prefix}request_seconds_count", "Heartbeat"] > 0
    status, why = running.process.probe("readyz")
    assert status == 200
    assert why.startswith("serving clients")


# -- on the wire ---------------------------------------------------------------------------------------


def ask(address: str, message: Any, correlation_id: int = 7) -> bytes:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(codec.encode_request(message, correlation_id, "raw"))
        return receive(connection)


def receive(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
        more = connection.recv(65_536)
        if not more:
            raise ConnectionError("the gateway has closed the connection")
        data += more
    return data


def test_a_commit_needs_a_partition_that_exists(running: Running) -> None:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    lost, found = (
        kind.OffsetCommitRequestPartition(partition_index=each, committed_offset=1) for each in (4, 0)
    )

    def committed(name: str) -> list[tuple[str, int, int]]:
        topics = [kind(name=name, partitions=[lost, found]), kind(name="n o", partitions=[found])]
        told = codec.decode_response(
            8, 8, ask(running.gateway, OffsetCommitRequest(version=8, group_id="commits", topics=topics))
        )
        return [
            (topic.name, each.partition_index, each.error_code)
            for topic in told.topics
            for each in topic.partitions
        ]

    # Where Kafka cannot tell in time, commits pass.
    wait_for(lambda: committed(TOPIC) == [(TOPIC, 4, 3), (TOPIC, 0, 0), ("n o", 0, 3)])
    wait_for(lambda: committed("later") == [("later", 4, 3), ("later", 0, 3), ("n o", 0, 3)])
    with closing(KafkaAdminClient(bootstrap_servers=running.gateway)) as admin:
        admin.create_topics([NewTopic("later", num_partitions=5, replication_factor=1)])
    wait_for(lambda: committed("later") == [("n o", 0, 3), ("later", 4, 0), ("later", 0, 0)])


def test_a_topic_that_was_made_again_has_no_offsets_of_the_one_before(running: Running) -> None:
    commits, fetches = (
        OffsetCommitRequest.OffsetCommitRequestTopic,
        OffsetFetchRequest.OffsetFetchRequestTopic,
    )
    found = commits.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)

    def committed() -> list[int]:
        # Where Kafka cannot tell in time commits pass, and have no ids.
        topics = [commits(name=name, partitions=[found]) for name in ("n o", "again", TOPIC)]
        request = OffsetCommitRequest(version=8, group_id="made-again", topics=topics)
        told = codec.decode_response(8, 8, ask(running.gateway, request))
        return [each.error_code for topic in told.topics for each in topic.partitions]

    def fetched(names: list[str] | None) -> dict[str, int] | int:
        topics = None if names is None else [fetches(name=name, partition_indexes=[0]) for name in names]
        request = OffsetFetchRequest(version=7, group_id="made-again", topics=topics, require_stable=False)
        told = codec.decode_response(9, 7, ask(running.gateway, request))
        offsets = {it.name: it.partitions[0].committed_offset for it in told.topics}
        return offsets if told.error_code == 0 else int(told.error_code)

    named = ["again", TOPIC]
    with closing(KafkaAdminClient(bootstrap_servers=running.broker)) as admin:
        admin.create_topics([NewTopic("again", num_partitions=1, replication_factor=1)])
        wait_for(lambda: committed() == [3, 0, 0])
        wait_for(lambda: fetched(named) == fetched(None) == {"again": 1, TOPIC: 1})
        admin.delete_topics(["again"])
        wait_for(lambda: (fetched(named), fetched(None)) == ({"again": -1, TOPIC: 1}, {TOPIC: 1}))
        assert "again" not in {each["topic"] for each in running.describe("made-again")}
        admin.create_topics([NewTopic("again", num_partitions=1, replication_factor=1)])
        wait_for(lambda: committed() == [3, 0, 0])
        wait_for(lambda: fetched(named) == {"again": 1, TOPIC: 1})


def test_a_list_has_what_was_answered_before_it(running: Running) -> None:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    found = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [kind(name=TOPIC, partitions=[found])]

    def listed() -> set[str]:
        told = codec.decode_response(16, 4, ask(running.gateway, ListGroupsRequest(version=4)))
        return {each.group_id for each in told.groups}

    for number in range(5):
        group_id = f"listed-{number}"
        commit = OffsetCommitRequest(version=8, group_id=group_id, topics=topics)
        wait_for(
            lambda commit=commit: (  # type: ignore[misc]
                codec.decode_response(8, 8, ask(running.gateway, commit)).topics[0].partitions[0].error_code
                == 0
            )
        )
        assert group_id in listed()
        delete = DeleteGroupsRequest(version=2, groups_names=[group_id])
        told = codec.decode_response(42, 2, ask(running.gateway, delete)).results[0].error_code
        assert told == 0
        assert group_id not in listed()


def test_a_tenant_has_names_and_answers_of_its_own(running: Running) -> None:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = [kind(name=TOPIC, partitions=[partition])]
    tenant = start_gateway(
        running.directory,
        running.broker,
        running.job.topics,
        *TENANTS,
        "--set",
        f"gateway.groups.prefix={TENANT}",
    )
    try:
        address = tenant.wait_for("clients find the gateway at ")
        committed = OffsetCommitRequest(version=8, group_id="reports", topics=topics)
        told = codec.decode_response(8, 8, ask(address, committed))
        assert told.topics[0].partitions[0].error_code == 0
        with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
            wait_for(lambda: [each["group_id"] for each in admin.list_groups()] == ["reports"])
    finally:
        tenant.kill()
    fetched = OffsetFetchRequest(version=7, group_id=f"{TENANT}reports", topics=None)
    told = codec.decode_response(9, 7, ask(running.gateway, fetched))
    assert told.topics[0].partitions[0].committed_offset == 7


def test_every_api_of_a_broker_has_a_row(running: Running) -> None:
    told = codec.decode_response(18, 2, ask(running.broker, ApiVersionsRequest(version=2)))
    assert sorted({each.api_key for each in told.api_keys} - APIS.keys()) == []
    ours = codec.decode_response(18, 2, ask(running.gateway, ApiVersionsRequest(version=2)))
    assert {25, 28} & {each.api_key for each in ours.api_keys} == set()


def test_no_response_names_the_broker(running: Running) -> None:
    _, _, port = running.broker.rpartition(":")
    hidden = int(port).to_bytes(4)
    asked = [
        *(MetadataRequest(version=version) for version in range(14)),
        *(DescribeClusterRequest(version=version) for version in range(2)),
        *(FindCoordinatorRequest(version=version, key="g") for version in range(4)),
        *(FindCoordinatorRequest(version=version, coordinator_keys=["g", "h"]) for version in range(4, 7)),
        *(FindCoordinatorRequest(version=version, key="t", key_type=1) for version in range(1, 4)),
        *(ListGroupsRequest(version=version) for version in range(6)),
    ]
    for message in asked:
        answer = ask(running.gateway, message)
        assert hidden not in answer, message
        assert port.encode() not in answer, message
    assert hidden in ask(running.broker, MetadataRequest(version=9)), "the test would see it"


def test_responses_come_in_order_whoever_answers(running: Running) -> None:
    host, _, port = running.gateway.rpartition(":")
    asked = [
        ApiVersionsRequest(version=2),
        FindCoordinatorRequest(version=3, key="g"),
        MetadataRequest(version=9),
        ListGroupsRequest(version=4),
    ] * 10
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        for number, message in enumerate(asked):
            connection.sendall(codec.encode_request(message, number, "raw"))
        data = b""
        found: list[int] = []
        while len(found) < len(asked):
            data += connection.recv(65_536)
            while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4]):
                length = 4 + int.from_bytes(data[:4])
                found.append(int.from_bytes(data[4:8]))
                data = data[length:]
    assert found == list(range(len(asked)))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        (2**31 - 1).to_bytes(4) + bytes(8),
        (20).to_bytes(4) + bytes.fromhex("0045000000000001") + bytes(12),
        (12).to_bytes(4) + bytes.fromhex("000b000900000001") + b"\xff\xff\xff\xff",
    ],
)
def test_what_is_no_frame_closes_its_own_connection_alone(running: Running, sent: bytes) -> None:
    host, _, port = running.gateway.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(sent)
        with pytest.raises(ConnectionError):  # noqa: PT012 - either of the two may notice
            if connection.recv(1) == b"":
                raise ConnectionResetError
    assert ask(running.gateway, ApiVersionsRequest(version=0))
