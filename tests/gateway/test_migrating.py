"""Groups that move between Kafka's coordinator and this one, and what clients are told that cannot move."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import confluent_kafka
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tests.gateway.clients import Librdkafka, groups_tool, java, polling, run
from tests.gateway.conftest import Running
from tests.jdk import find_javac
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.spark, pytest.mark.verify]

TOPIC = "moving-orders"
FLEET = 20
PER_PARTITION = 5


@pytest.fixture(scope="module", autouse=True)
def _topic(running: Running) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=running.broker)) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=FLEET, replication_factor=1)])


def work(running: Running, address: str, values: Iterator[int]) -> tuple[list[int], list[int]]:
    """Write records while a fleet at `address` shares the topic; return what was written and read."""
    written = [next(values) for _ in range(FLEET * PER_PARTITION)]
    with ExitStack() as stack:
        fleet = [stack.enter_context(closing(Librdkafka(address, [TOPIC], "moving"))) for _ in range(FLEET)]
        until = polling(*fleet)
        until(lambda: all(len(member.assignment()) == 1 for member in fleet))
        with closing(KafkaProducer(bootstrap_servers=running.broker, acks="all")) as producer:
            for number in written:
                producer.send(TOPIC, b"%d" % number, partition=number % FLEET)
            producer.flush()
        until(lambda: all(len(member.read) >= PER_PARTITION for member in fleet))
        for member in fleet:
            member.consumer.commit(asynchronous=False)
    return written, sorted(int(value) for member in fleet for value in member.read)


def move(source: str, target: str, file: Path) -> None:
    """The two commands of docs/migrating.md."""
    reset = ("--reset-offsets", "--group", "moving")
    file.write_text(groups_tool(source, *reset, "--all-topics", "--to-current", "--dry-run", "--export"))
    groups_tool(target, *reset, "--from-file", str(file), "--execute")


def test_a_fleet_moves_here_and_back_and_reads_each_record_once(running: Running, tmp_path: Path) -> None:
    values = iter(range(10**6))
    sides = (running.broker, running.gateway, running.broker)
    for number, side in enumerate(sides):
        if number:
            move(sides[number - 1], side, tmp_path / f"offsets{number}.csv")
        written, read = work(running, side, values)
        assert read == written


def test_share_groups_end_with_an_error(running: Running) -> None:
    given = ("--bootstrap-server", running.gateway, "--topic", TOPIC, "--group", "kip")
    done = run("consumer.ConsoleShareConsumer", *given)
    error = "UnsupportedVersionException: The cluster does not support the share group protocol"
    assert error in done.stdout + done.stderr
    assert "kip" not in groups_tool(running.gateway, "--list").split()


def test_offsets_in_a_transaction_are_refused_and_nothing_is_lost(running: Running) -> None:
    offsets = [confluent_kafka.TopicPartition(TOPIC, 0, 3)]
    with closing(Librdkafka(running.gateway, [TOPIC], "tx")) as member:
        polling(member)(member.assignment)
        producer = confluent_kafka.Producer({"bootstrap.servers": running.gateway, "transactional.id": "tx"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        with pytest.raises(confluent_kafka.KafkaException, match=r"AddOffsetsToTxnRequest .* not supported"):
            producer.send_offsets_to_transaction(
                offsets, member.consumer.consumer_group_metadata(), PATIENCE_S
            )
        producer.abort_transaction(PATIENCE_S)
        assert {each.offset for each in member.consumer.committed(offsets)} == {
            confluent_kafka.OFFSET_INVALID
        }
        # A transaction without offsets goes through.
        producer.begin_transaction()
        producer.produce(TOPIC, b"a")
        producer.commit_transaction(PATIENCE_S)


def test_java_says_what_is_not_supported(running: Running) -> None:
    find_javac()
    command = java("unused")
    program = str(Path(__file__).parent / "OffsetsInTransaction.java")
    done = subprocess.run(
        [*command[:-1], program, running.gateway],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.strip() == (
        "org.apache.kafka.common.errors.UnsupportedVersionException: "
        "The node does not support TXN_OFFSET_COMMIT"
    ), done.stderr
