"""Groups that stay at the brokers and groups that are here, with clients that know one address for both."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import CoordinatorNotAvailableError
from kafka.protocol.admin.groups import DeleteGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import HeartbeatRequest, OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.gateway import codec
from tests.commands.job import Process
from tests.gateway.clients import (
    Librdkafka,
    console_consumer,
    groups_tool,
    java,
    kafka_python,
    polling,
    run,
)
from tests.gateway.cluster import another_of
from tests.gateway.conftest import Running, start_gateway
from tests.gateway.test_brokers_that_go import brokers, coordinator
from tests.gateway.test_clients import ask
from tests.gateway.test_streams import COUNTS, TEXTS
from tests.gateway.test_streams import start as start_streams
from tests.jdk import find_javac
from tests.patience import PATIENCE_S, wait_for

pytestmark = pytest.mark.spark

TOPIC = "two-sides"
NOT_COORDINATOR = 16
LIST = ListGroupsRequest(version=4, states_filter=[])
MOVED = "two-sides-moved"
RECORDS = 40
PARTITIONS = 4
PATTERNS = "there*,moves,streams-*"


class Both(NamedTuple):
    """A gateway that leaves some groups at the brokers."""

    address: str
    broker: str
    running: Running
    process: Process
    file: Path

    def set(self, patterns: str) -> None:
        """Let other groups stay at the brokers."""
        (new := self.file.with_name("new")).write_text(f"{patterns}\n")
        new.replace(self.file)
        said = f"the groups at the brokers are {patterns} from now on"
        self.process.wait_until(lambda: any(said in line for line in self.process.said))

    def at_brokers(self) -> set[str]:
        """The groups of the brokers' own coordinator."""
        with closing(KafkaAdminClient(bootstrap_servers=self.broker)) as admin:
            return {each["group_id"] for each in admin.list_groups()}

    def members(self, address: str, group_id: str) -> int:
        """How many members the group has there."""
        with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
            try:
                return len(admin.describe_groups([group_id])[group_id]["members"])
            except CoordinatorNotAvailableError:
                # The broker is still making its own topic of offsets.
                return 0

    def committed_there(self, group_id: str) -> dict[int, int]:
        """What the group has committed at the brokers, by partition."""
        return _committed(self.broker, group_id)

    def committed_here(self, group_id: str) -> dict[int, int]:
        """What the group has committed here, by partition, as a gateway says that has no group elsewhere."""
        return _committed(self.here, group_id)

    @property
    def here(self) -> str:
        """The address of a gateway that has no group elsewhere."""
        return self.running.gateway


def _committed(address: str, group_id: str) -> dict[int, int]:
    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        told = admin.list_group_offsets([group_id])[group_id]
        return {each.partition: it.offset for each, it in told.items()}


def prepare(both: Both) -> None:
    """Make the topics, and fill them."""
    with closing(KafkaAdminClient(bootstrap_servers=both.address)) as admin:
        topics = [NewTopic(it, num_partitions=PARTITIONS, replication_factor=1) for it in (TOPIC, MOVED)]
        admin.create_topics(topics)
    with closing(KafkaProducer(bootstrap_servers=both.address, acks="all")) as producer:
        for number in range(RECORDS):
            for topic in (TOPIC, MOVED):
                producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush()


@pytest.fixture(scope="module")
def both(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    file = tmp_path_factory.mktemp("two-sides") / "groups"
    file.write_text(PATTERNS)
    process = start_gateway(
        running.directory,
        running.broker,
        running.job.topics,
        "--set",
        f"gateway.groups.brokers.file={file}",
    )
    try:
        address = process.wait_for("clients find the gateway at ")
        both = Both(address, running.broker, running, process, file)
        prepare(both)
        yield both
        process.terminate()
        assert process.exit_code() == 0, process.said
    finally:
        process.kill()


def test_each_group_is_on_its_side_whatever_its_members_are(both: Both) -> None:
    members = [Librdkafka(both.address, [TOPIC], it) for it in ("there", "there", "here", "here")]
    try:
        polling(*members)(lambda: all(len(each.assignment()) == PARTITIONS // 2 for each in members))
        assert "there" in both.at_brokers()
        assert "here" not in both.at_brokers()
        assert both.members(both.here, "here") == 2
        polling(*members)(lambda: all(len(each.read) >= RECORDS // 2 for each in members))
        for each in members:
            each.consumer.commit(asynchronous=False)
    finally:
        for each in members:
            each.close()
    every = dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    assert both.committed_there("there") == both.committed_here("here") == every


def test_kafka_python_has_groups_on_both_sides(both: Both) -> None:
    for group_id, committed in (("there-python", both.committed_there), ("here-python", both.committed_here)):
        with closing(kafka_python(both.address, [TOPIC], group_id)) as member:
            found: list[bytes] = []
            while len(found) < RECORDS:
                for records in member.poll(timeout_ms=500).values():
                    found += [record.value for record in records]
            member.commit()
        assert sum(committed(group_id).values()) == RECORDS
        assert (group_id in both.at_brokers()) == (group_id == "there-python")


def test_a_member_of_kafkas_newer_protocol_may_stay_at_the_brokers(both: Both) -> None:
    newer = {"group.protocol": "consumer", "auto.offset.reset": "earliest", "group.id": "there-c"}
    member = confluent_kafka.Consumer({"bootstrap.servers": both.address, **newer})
    member.subscribe([TOPIC])
    read: list[object] = []
    wait_for(lambda: read.extend(member.consume(10, 0.2)) or len(read) == RECORDS)
    member.close()
    arguments = ("--max-messages", str(RECORDS), "--from-beginning", "--timeout-ms", "60000")
    done = run(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", both.address, "--topic", TOPIC, "--group", "there-java", *arguments),
        *("--command-property", "group.protocol=consumer"),
    )
    assert sorted(map(int, done.stdout.split())) == list(range(RECORDS)), done.stderr
    wait_for(lambda: sum(both.committed_there("there-c").values()) == RECORDS)
    assert sum(both.committed_there("there-java").values()) == RECORDS


def test_members_of_the_consumer_protocol_are_at_home_here_as_well(both: Both) -> None:
    done = run(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", both.address, "--topic", TOPIC, "--group", "here-kip", "--from-beginning"),
        *("--max-messages", str(RECORDS), "--command-property", "group.protocol=consumer"),
    )
    assert sorted(map(int, done.stdout.split())) == list(range(RECORDS)), done.stderr
    wait_for(lambda: sum(both.committed_here("here-kip").values()) == RECORDS)
    told = groups_tool(both.address, "--describe", "--group", "here-kip", "--state")
    assert "uniform" in told
    assert "here-kip" not in both.at_brokers()


def test_offsets_in_a_transaction_of_librdkafka(both: Both) -> None:
    offsets = [confluent_kafka.TopicPartition(TOPIC, 0, 3)]
    for group_id in ("there-tx", "here-tx"):
        with closing(Librdkafka(both.address, [TOPIC], group_id)) as member:
            polling(member)(member.assignment)
            metadata = member.consumer.consumer_group_metadata()
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": both.address, "transactional.id": group_id}
            )
            producer.init_transactions(PATIENCE_S)
            producer.begin_transaction()
            if group_id == "there-tx":
                producer.send_offsets_to_transaction(offsets, metadata, PATIENCE_S)
                producer.commit_transaction(PATIENCE_S)
                # Transactions that commit are seen when their markers are written.
                wait_for(lambda: both.committed_there("there-tx") == {0: 3})
                continue
            with pytest.raises(confluent_kafka.KafkaException, match=r"(?i)version|not supported"):
                producer.send_offsets_to_transaction(offsets, metadata, PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)
            assert both.committed_here("here-tx") == {}
            wait_for(
                lambda: any(
                    "could stay at the brokers (gateway.groups.brokers)" in it for it in both.process.said
                )
            )
            assert "here-tx" not in both.at_brokers()


def test_offsets_in_a_transaction_of_java(both: Both) -> None:
    find_javac()
    *command, _ = java("unused")
    program = str(Path(__file__).parent / "OffsetsInTransaction.java")
    for group_id, says in (
        ("there-java-tx", "committed"),
        ("here-java-tx", "org.apache.kafka.common.KafkaException: Unexpected error in "),
    ):
        done = subprocess.run(
            [*command, program, both.address, TOPIC, group_id],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.stdout.startswith(says), done.stdout + done.stderr
    wait_for(lambda: both.committed_there("there-java-tx") == {0: 3})
    assert "here-java-tx" not in both.at_brokers()


def test_a_group_of_the_same_name_on_the_other_side_is_not_seen(both: Both) -> None:
    """Each side has one that belongs to the other."""
    for address, group_id in ((both.broker, "here-twin"), (both.running.gateway, "there-twin")):
        with closing(Librdkafka(address, [TOPIC], group_id)) as stray:
            polling(stray)(lambda stray=stray: len(stray.read) == RECORDS)  # type: ignore[misc]
            stray.consumer.commit(asynchronous=False)
    assert "here-twin" in both.at_brokers()
    with closing(KafkaAdminClient(bootstrap_servers=both.address)) as admin:
        listed = {each["group_id"] for each in admin.list_groups()}
        assert not {"here-twin", "there-twin"} & listed
        described = admin.describe_groups(["here-twin", "there-twin"])
        assert {it["group_state"] for it in described.values()} == {"Dead"}
        assert admin.list_group_offsets(["here-twin"])["here-twin"] == {}
    entry = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [entry(version=8, group_id=it, topics=None) for it in ("there-twin", "here-twin", "there-twin")]
    fetch = OffsetFetchRequest(version=8, groups=groups, require_stable=False)
    told = codec.decode_response(9, 8, ask(both.address, fetch)).groups
    assert [(it.group_id, it.topics) for it in told] == [("there-twin", []), ("here-twin", [])]
    delete = DeleteGroupsRequest(version=2, groups_names=["there-twin", "here-twin"])
    results = codec.decode_response(42, 2, ask(both.address, delete)).results
    assert {it.error_code for it in results} == {69}
    assert "here-twin" in both.at_brokers()
    assert both.committed_here("there-twin") == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)


def test_kafkas_tool_sees_both_sides(both: Both) -> None:
    for group_id in ("there-tool", "here-tool"):
        with closing(Librdkafka(both.address, [TOPIC], group_id)) as member:
            polling(member)(lambda member=member: len(member.read) == RECORDS)  # type: ignore[misc]
            member.consumer.commit(asynchronous=False)
    listed = groups_tool(both.address, "--list").split()
    assert {"there-tool", "here-tool"} <= set(listed)
    assert len(listed) == len(set(listed))
    told = groups_tool(both.address, "--describe", "--all-groups")
    for group_id in ("there-tool", "here-tool"):
        found = re.findall(rf"^{group_id} +{TOPIC} +\d +(\d+) +(\d+) +0", told, re.MULTILINE)
        assert found == [("10", "10")] * PARTITIONS, told
    groups = ("--group", "there-tool", "--group", "here-tool")
    groups_tool(both.address, *groups, "--reset-offsets", "--to-earliest", "--topic", TOPIC, "--execute")
    assert both.committed_there("there-tool") == both.committed_here("here-tool")
    deleted = groups_tool(both.address, *groups, "--delete")
    assert "was successful" in deleted, deleted
    assert not {"there-tool", "here-tool"} & set(groups_tool(both.address, "--list").split())
    admin = AdminClient({"bootstrap.servers": both.address})
    names = {each.group_id for each in admin.list_consumer_groups().result(PATIENCE_S).valid}
    assert "there" in names


def test_a_group_moves_when_the_file_changes_and_goes_on_with_what_is_committed_there(both: Both) -> None:
    """What is committed on one side is not committed on the other."""
    members = [Librdkafka(both.address, [MOVED], "moves") for _ in range(2)]
    half = PARTITIONS // 2
    try:
        until = polling(*members)
        until(lambda: [len(each.assignment()) for each in members] == [half, half])
        assert "moves" in both.at_brokers()
        until(lambda: all(len(each.read) >= RECORDS // 2 for each in members))
        for each in members:
            each.consumer.commit(asynchronous=False)
        # Of its own, so that one sees from where a member goes on.
        with closing(KafkaConsumer(bootstrap_servers=both.running.gateway, group_id="moves")) as other:
            other.assign([TopicPartition(MOVED, it) for it in range(PARTITIONS)])
            for partition in other.assignment():
                other.seek(partition, 7)
            other.commit()
        assert both.committed_here("moves") == dict.fromkeys(range(PARTITIONS), 7)
        for each in members:
            each.read.clear()
        both.set(PATTERNS.replace("moves,", ""))
        until(lambda: both.members(both.here, "moves") == 2)
        until(lambda: [len(each.assignment()) for each in members] == [half, half])
        # One that was alone first has read all, and reads its half again. Its positions say when it has.
        until(lambda: all(len(each.read) >= 3 * half and each.is_at_end() for each in members))
        assert {int(it) // PARTITIONS for each in members for it in each.read} == {7, 8, 9}
        for each in members:
            each.read.clear()
        both.set(PATTERNS)
        until(lambda: both.members(both.broker, "moves") == 2)
        with closing(KafkaProducer(bootstrap_servers=both.address, acks="all")) as producer:
            for partition in range(PARTITIONS):
                producer.send(MOVED, b"%d" % (RECORDS + partition), partition=partition)
            producer.flush()
        # A member that is alone for a moment reads all, before the other one does.
        new = {b"%d" % (RECORDS + partition) for partition in range(PARTITIONS)}
        until(lambda: {it for each in members for it in each.read} == new)
    finally:
        for each in members:
            each.close()


@pytest.mark.verify
def test_javas_member_moves_as_well(both: Both) -> None:
    # A broker allows no session of less than six seconds.
    with console_consumer(both.address, TOPIC, "moves", **{"session.timeout.ms": "10000"}) as member:
        wait_for(lambda: both.members(both.broker, "moves"))
        both.set(PATTERNS.replace("moves,", ""))
        wait_for(lambda: both.members(both.here, "moves") == 1)
        both.set(PATTERNS)
        wait_for(lambda: both.members(both.broker, "moves"))
        assert member.poll() is None


@pytest.mark.verify
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_kafka_streams_counts_exactly_once_with_its_group_at_the_brokers(
    both: Both, tmp_path: Path, protocol: str
) -> None:
    guarantee = "exactly_once_v2"
    with closing(KafkaAdminClient(bootstrap_servers=both.broker)) as admin:
        if absent := {TEXTS, COUNTS} - set(admin.list_topics()):
            admin.create_topics([NewTopic(it, num_partitions=2, replication_factor=1) for it in absent])
    word = protocol
    with closing(KafkaProducer(bootstrap_servers=both.address, acks="all")) as producer:
        for number in range(20):
            producer.send(TEXTS, word.encode(), partition=number % 2)
        producer.flush()
    reader = KafkaConsumer(
        bootstrap_servers=both.address, enable_auto_commit=False, isolation_level="read_committed"
    )
    with closing(reader), start_streams(tmp_path, both.address, guarantee, protocol) as program:
        reader.assign([TopicPartition(COUNTS, number) for number in range(2)])
        reader.seek_to_beginning()
        counts: dict[str, int] = {}

        def is_counted() -> bool:
            for records in reader.poll(timeout_ms=100).values():
                counts.update({it.key.decode(): int.from_bytes(it.value) for it in records})
            return counts.get(word) == 20

        wait_for(is_counted, said=lambda: f"{counts} {program.said[-4000:]}")
        group_id = f"streams-{guarantee}-{protocol}"
        assert group_id in both.at_brokers()
        kind = "streams" if protocol == "streams" else "consumer"
        tool = f"{kind}.group.ConsumerGroupCommand" if kind == "consumer" else "streams.StreamsGroupCommand"
        told = run(tool, "--bootstrap-server", both.address, "--describe", "--group", group_id)
        assert TEXTS in told.stdout, told


def test_what_is_offered(both: Both) -> None:
    told = codec.decode_response(18, 2, ask(both.address, ApiVersionsRequest(version=2)))
    assert {25, 28, 68, 69, 88, 89} <= {each.api_key for each in told.api_keys}
    counted = ("group_coordinator_gateway_requests_total", "ConsumerGroupHeartbeat", "stream")
    assert counted in both.process.metrics()


@pytest.mark.verify
def test_each_group_is_at_the_broker_that_has_it_also_while_no_coordinator_runs_here(tmp_path: Path) -> None:
    topics = {name: f"alone.{name}" for name in ("requests", "responses", "groups")}
    group_ids = [f"group-{number}" for number in range(6)]
    with ExitStack() as stack:
        divided = {"offsets.topic.num.partitions": "6"}
        first = stack.enter_context(EmbeddedBroker(tmp_path / "1", overrides=divided))
        stack.enter_context(another_of(tmp_path, first, 2, divided))
        with closing(KafkaAdminClient(bootstrap_servers=first.bootstrap_servers)) as admin:
            wait_for(lambda: len(admin.describe_cluster()["brokers"]) == 2)
            new = [NewTopic(it, num_partitions=2, replication_factor=1) for it in (*topics.values(), TOPIC)]
            admin.create_topics(new)
        process = start_gateway(
            tmp_path, first.bootstrap_servers, topics, "--set", "gateway.groups.brokers=group-*"
        )
        stack.callback(process.kill)
        address = process.wait_for("clients find the gateway at ")
        wait_for(lambda: brokers(address).keys() == {1, 2})
        members = [
            stack.enter_context(closing(Librdkafka(address, [TOPIC], group_id))) for group_id in group_ids
        ]
        polling(*members)(lambda: all(len(each.assignment()) == 2 for each in members))
        nodes = [coordinator(address, group_id) for group_id in group_ids]
        assert nodes == [coordinator(first.bootstrap_servers, group_id) for group_id in group_ids]
        assert set(nodes) == {1, 2}
        at = brokers(address)
        for group_id, node_id in zip(group_ids, nodes, strict=True):
            beat = HeartbeatRequest(version=3, group_id=group_id, generation_id=1, member_id="m")
            told = {each: codec.decode_response(12, 3, ask(at[each], beat)).error_code for each in (1, 2)}
            assert told == {node_id: Errors.UNKNOWN_MEMBER_ID, 3 - node_id: NOT_COORDINATOR}
        listed = {
            each: [it.group_id for it in codec.decode_response(16, 4, ask(at[each], LIST)).groups]
            for each in (1, 2)
        }
        assert {it: node_id for node_id, its in listed.items() for it in its} == dict(
            zip(group_ids, nodes, strict=True)
        )
