from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from group_coordinator.deploy import broker as module
from group_coordinator.deploy.broker import BrokerError, EmbeddedBroker, PortInUseError
from tests.patience import PATIENCE_S, wait_for
from tests.rooms import ROOT

pytestmark = pytest.mark.spark


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def answers(address: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port_of(address))) == 0


def gone(pid: int) -> bool:
    """Whether a child of ours has ended and been waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def produce(address: str, topic: str, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=address)
    for value in values:
        producer.send(topic, value).get(PATIENCE_S)
    producer.close()


def consume(address: str, topic: str, count: int) -> list[bytes]:
    """Read as a member of a group, so that the broker's own coordinator takes part."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id="readers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=20_000,
    )
    values = [message.value for _, message in zip(range(count), consumer, strict=False)]
    consumer.close()
    return values


@pytest.fixture
def free_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(tmp_path / "kafka")
    yield broker
    broker.stop()


def test_serves_records_and_groups_until_it_is_stopped(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "new" / "kafka", overrides={"message.max.bytes": "54321"}) as broker:
        pid, address = broker.pid, broker.bootstrap_servers
        admin = KafkaAdminClient(bootstrap_servers=address)
        admin.create_topics([NewTopic("letters", num_partitions=1, replication_factor=1)])
        admin.close()
        produce(address, "letters", b"a", b"b")

        assert consume(address, "letters", 2) == [b"a", b"b"]
        assert "message.max.bytes = 54321" in broker.log_file.read_text()

    assert pid is not None
    assert gone(pid)
    assert broker.pid is None
    assert not answers(address)


@pytest.mark.verify
def test_a_second_start_finds_topics_and_port_again(free_broker: EmbeddedBroker) -> None:
    free_broker.start()
    address = free_broker.bootstrap_servers
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics([NewTopic("letters", num_partitions=1, replication_factor=1)])
    admin.close()
    produce(address, "letters", b"a")
    free_broker.stop()
    free_broker.stop()  # harmless

    free_broker.start()
    pid = free_broker.pid
    free_broker.start()  # harmless

    assert free_broker.pid == pid
    assert free_broker.bootstrap_servers == address
    consumer = KafkaConsumer(bootstrap_servers=address)
    partition = TopicPartition("letters", 0)

    assert consumer.end_offsets([partition]) == {partition: 1}

    consumer.close()


@pytest.mark.verify
def test_a_killed_broker_starts_again(tmp_path: Path) -> None:
    # The controller waits for the session of the killed broker to end: 9 s by default.
    quick = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
    with EmbeddedBroker(tmp_path, overrides=quick) as broker:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        broker.stop()

        broker.start()

        assert answers(broker.bootstrap_servers)


@pytest.mark.verify
def test_a_broker_that_does_not_obey_is_killed(
    free_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STOP_TIMEOUT_S", 0.2)
    free_broker.start()
    pid = free_broker.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # cannot act on SIGTERM now

    free_broker.stop()

    assert gone(pid)


@pytest.mark.verify
def test_dies_with_its_owner(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from group_coordinator.deploy.broker import EmbeddedBroker\n"
        "broker = EmbeddedBroker(Path(sys.argv[1])); broker.start()\n"
        "print(broker.bootstrap_servers, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "kafka")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        address = owner.stdout.readline().strip()
        assert answers(address)

        owner.kill()
        owner.wait()

    wait_for(lambda: not answers(address), said=lambda: "the broker outlived its owner")


@pytest.mark.verify
def test_a_start_that_fails_quotes_the_log_and_leaves_nothing(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path):
        pass
    another = {"node.id": "2", "controller.quorum.voters": "2@127.0.0.1:1"}
    broker = EmbeddedBroker(tmp_path, overrides=another)

    with pytest.raises(BrokerError, match=r"(?s)ended with exit code 1; the end of .*broker\.log:\n.*node"):
        broker.start()

    assert broker.pid is None


@pytest.mark.verify
def test_settings_kafka_does_not_take_are_quoted(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, overrides={"process.roles": "waiter"})

    with pytest.raises(BrokerError, match=r"(?s)storage was not formatted:.*process\.roles"):
        broker.start()


@pytest.mark.verify
def test_a_deadline_that_passes_leaves_nothing(free_broker: EmbeddedBroker) -> None:
    with pytest.raises(BrokerError, match="not formatted in time"):
        free_broker.start(timeout_s=0)

    free_broker.start()
    free_broker.stop()
    with pytest.raises(BrokerError, match=r"did not answer in time; the end of "):
        free_broker.start(timeout_s=0.1)

    assert free_broker.pid is None
    assert not answers(free_broker.bootstrap_servers)


@pytest.mark.verify
def test_a_chosen_port_taken_in_between_is_refused_at_the_first_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a broker that was started at the same time."""
    really_free = module.is_free
    before = iter([True])
    monkeypatch.setattr(module, "is_free", lambda port: next(before, None) or really_free(port))
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        broker = EmbeddedBroker(tmp_path, port=squatter.getsockname()[1])
        with pytest.raises(PortInUseError):
            broker.start()
    assert "Address already in use" in broker.log_file.read_text()


@pytest.mark.verify
def test_a_port_taken_in_between_is_replaced(
    free_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_free = module._free_port
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        taken = squatter.getsockname()[1]
        first = iter([taken])
        monkeypatch.setattr(module, "_free_port", lambda: next(first, None) or really_free())

        free_broker.start()

        assert port_of(free_broker.bootstrap_servers) != taken
        assert "Address already in use" in free_broker.log_file.read_text()


def test_a_chosen_port_that_is_in_use_is_refused_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        taken = squatter.getsockname()[1]
        broker = EmbeddedBroker(tmp_path, port=taken)

        with pytest.raises(BrokerError, match=f"Port {taken} is in use. Choose another one"):
            broker.start()


@pytest.mark.verify
def test_port_heap_and_java_options_are_as_chosen(tmp_path: Path) -> None:
    port = module._free_port()
    flags = ("-XX:TieredStopAtLevel=1", "-Dchosen=this")

    with EmbeddedBroker(tmp_path, port=port, heap_mb=300, jvm_flags=flags) as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{port}"
        assert answers(broker.bootstrap_servers)
        assert {*flags, "-Xmx300m"} <= set(psutil.Process(broker.pid).cmdline())
