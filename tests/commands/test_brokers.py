"""Brokers of other versions of Kafka than the one that all other tests have."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

from group_coordinator import AdminClient, GroupMember
from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.deploy.jars import read_lock
from tests.commands.job import Job, Process
from tests.gateway.clients import kafka_python
from tests.patience import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.verify]


@pytest.mark.parametrize("jars", ["broker-3.9", "broker-4.4"])
def test_members_and_kafkas_own_consumer_work_and_commit(tmp_path: Path, jars: str) -> None:
    assert f"org.apache.kafka:kafka_2.13:{jars.removeprefix('broker-')}" in [
        it.coordinate.rpartition(".")[0] for it in read_lock(jars)
    ]
    with EmbeddedBroker(tmp_path / "kafka", jars=jars) as broker:
        servers = broker.bootstrap_servers
        job = Job(servers, tmp_path, "other")
        running = [job]
        topics = {"request_topic": job.topics["requests"], "response_topic": job.topics["responses"]}
        named = [f"topics.{it}={job.topics[it]}" for it in ("requests", "responses", "groups")]
        try:
            job.wait_for("the coordinator is running")
            gateway = Process(
                tmp_path,
                *(
                    "gateway",
                    "--bootstrap-server",
                    servers,
                    "--listen",
                    "127.0.0.1:0",
                    "--metrics-port",
                    "-1",
                ),
                *(word for each in named for word in ("--set", each)),
            )
            running.append(gateway)
            with GroupMember(group_id="g", bootstrap_servers=servers, **topics) as member:
                member.subscribe(units=["eu"])
                wait_for(lambda: member.assignment == {"eu"}, meanwhile=lambda: member.poll(timeout_ms=100))
                member.commit({"eu": 42})
                with AdminClient(bootstrap_servers=servers, **topics) as admin:
                    assert admin.describe_groups(["g"])["g"].group_state == "Stable"
            with closing(KafkaAdminClient(bootstrap_servers=servers)) as operator:
                operator.create_topics([NewTopic("orders", num_partitions=1, replication_factor=1)])
            partition = TopicPartition("orders", 0)
            address = gateway.wait_for("clients find the gateway at ")
            with closing(kafka_python(address, ["orders"], "of-kafka")) as consumer:
                wait_for(consumer.assignment, meanwhile=lambda: consumer.poll(timeout_ms=100))
                # Otherwise `committed` would share the fetch by which the consumer finds its position.
                assert consumer.position(partition) == 0
                consumer.commit({partition: OffsetAndMetadata(7, "", -1)})
                assert consumer.committed(partition) == 7
            job.terminate()
            assert job.exit_code() == 0
            assert "Traceback" not in "\n".join(job.said)
        finally:
            for each in running:
                each.kill()
