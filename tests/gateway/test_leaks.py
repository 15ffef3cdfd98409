"""No byte that a client is sent names a broker's own address, whatever the client does."""

from __future__ import annotations

from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.net.transport import KafkaTCPTransport

from tests.gateway.conftest import Running
from tests.patience import wait_for

pytestmark = pytest.mark.spark

TOPIC = "leaks"


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> bytearray:
    """All that kafka-python receives meanwhile."""
    data, receive = bytearray(), KafkaTCPTransport._sock_recv

    def tapped(self: KafkaTCPTransport) -> tuple[bytes, object]:
        received, error = receive(self)
        data.extend(received)
        return received, error

    monkeypatch.setattr(KafkaTCPTransport, "_sock_recv", tapped)
    return data


def run(address: str) -> None:
    """What an administrator, a producer with transactions and a consumer do."""
    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1)])
        with closing(KafkaProducer(bootstrap_servers=address, transactional_id="leaks")) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for number in range(10):
                producer.send(TOPIC, b"%d" % number)
            producer.commit_transaction()
        member = KafkaConsumer(
            TOPIC, bootstrap_servers=address, group_id="leaks", auto_offset_reset="earliest"
        )
        with closing(member):
            found: list[object] = []
            wait_for(lambda: found.extend(member.poll(timeout_ms=200).values()) or found)
            member.commit()
            admin.describe_groups(["leaks"])
        admin.list_groups()
        admin.describe_cluster()
        admin.describe_topics([TOPIC])
        admin.delete_topics([TOPIC])


def test_no_byte_names_the_broker(running: Running, heard: bytearray) -> None:
    port = running.broker.rpartition(":")[2]
    run(running.gateway)
    assert len(heard) > 1_000
    assert int(port).to_bytes(4) not in heard
    assert port.encode() not in heard
    heard.clear()
    with closing(KafkaAdminClient(bootstrap_servers=running.broker)) as admin:
        admin.describe_cluster()
    assert int(port).to_bytes(4) in heard, "the test would see it"
