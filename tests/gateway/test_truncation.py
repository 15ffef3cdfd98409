"""A log that lost records, and a Java consumer that notices by OffsetForLeaderEpoch through the gateway."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from group_coordinator.demo.console import console_command
from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import Job
from tests.gateway.conftest import start_gateway
from tests.patience import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.verify]

WRITTEN, KEPT = 20, 10


def produce(address: str, numbers: range) -> None:
    """Write each as a batch of its own."""
    with closing(KafkaProducer(bootstrap_servers=address, acks="all", linger_ms=0)) as producer:
        for number in numbers:
            producer.send("cut", b"%d" % number).get()


def truncate(data: Path) -> None:
    """Take the last records off the log, as an unclean election does, and make the broker look."""
    log = data / "cut-0" / "00000000000000000000.log"
    content, end = log.read_bytes(), 0
    for _ in range(KEPT):
        end += 12 + int.from_bytes(content[end + 8 : end + 12])
    log.write_bytes(content[:end])
    for name in ("*.index", "*.timeindex", "*.snapshot"):
        for file in log.parent.glob(name):
            file.unlink()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (data / name).unlink(missing_ok=True)


def test_a_java_consumer_notices_that_records_are_gone(tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(tmp_path / "kafka"))
        job = Job(broker.bootstrap_servers, tmp_path, "cut-off")
        stack.callback(job.kill)
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
            admin.create_topics([NewTopic("cut", num_partitions=1, replication_factor=1)])
        produce(broker.bootstrap_servers, range(WRITTEN))
        job.wait_for("the coordinator is running")
        gateway = start_gateway(tmp_path, broker.bootstrap_servers, job.topics)
        stack.callback(gateway.kill)
        address = gateway.wait_for("clients find the gateway at ")
        command = console_command(
            tmp_path,
            name="java",
            group="g",
            topic="cut",
            bootstrap_servers=address,
            session_timeout_ms=60_000,
        )
        output = tmp_path / "java"
        with output.open("wb") as said:
            java = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        stack.callback(java.wait)
        stack.callback(java.kill)
        wait_for(lambda: f"Offset:{WRITTEN - 1}\t" in output.read_text(), said=output.read_text)

        # Its commit tells in which epoch it has read, so that it would notice even if it joined again first.
        with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
            wait_for(
                lambda: [each.offset for each in admin.list_group_offsets(["g"])["g"].values()] == [WRITTEN]
            )

        broker.stop()
        truncate(tmp_path / "kafka" / "data")
        broker.start()

        noticed = f"Truncation detected for partition cut-0 at offset FetchPosition{{offset={WRITTEN},"
        wait_for(lambda: noticed in output.read_text(), said=output.read_text)
        produce(broker.bootstrap_servers, range(100, 101))
        wait_for(lambda: f"Offset:{KEPT}\t100" in output.read_text(), said=output.read_text)
