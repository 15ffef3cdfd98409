"""Records what real clients and a live broker say to each other, for `test_recorded.py`.

python -m tests.gateway.record               # all clients that this machine can run
python -m tests.gateway.record java sarama   # some

A broker tells clients the address of a forwarder (`Tap`), which keeps one exchange of each API and version
that the gateway reads. The files of the clients that were run are written anew. Logins are not recorded.
"""

from __future__ import annotations

import argparse
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import confluent_kafka.admin
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.structs import TopicPartition

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.foreign.__main__ import CLIENTS, PARTITIONS, RECORDS, TOPIC, Client, Missing, tell
from tests.gateway.clients import Librdkafka, VerifiableConsumer, groups_tool, kafka_python, polling, run
from tests.gateway.tap import Tap, write_exchanges
from tests.patience import wait_for

WRITTEN = "written"
"""The topic that producers write to. Members count the records of the other one."""


def java(tap: Tap, directory: Path) -> None:
    """Two consumers, a static one among them; a producer; what an administrator asks."""
    address, group = tap.address, "in-java"
    static = ("--group-instance-id", "static")
    with (
        VerifiableConsumer(directory / "1", address, TOPIC, group, *static) as first,
        VerifiableConsumer(directory / "2", address, TOPIC, group) as second,
    ):
        wait_for(lambda: len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2)
        run("VerifiableProducer", "--bootstrap-server", address, "--topic", WRITTEN, "--max-messages", "1")
        wait_for(lambda: {"offsets_committed"} <= {each["name"] for each in (*first.events, *second.events)})
        groups_tool(address, "--describe", "--group", group)
        first.close()
        second.close()
    in_consumer_protocol = ("--command-property", "group.protocol=consumer")
    reading = ("--bootstrap-server", address, "--topic", TOPIC, "--group", f"{group}-newer")
    run(
        "consumer.ConsoleConsumer",
        *(*reading, "--from-beginning", "--max-messages", str(RECORDS), *in_consumer_protocol),
    )
    groups_tool(address, "--describe", "--group", f"{group}-newer", "--members")
    # The static one is still a member, until its session ends.
    wait_for(lambda: "Empty" in groups_tool(address, "--describe", "--group", group, "--state"))
    reset = ("--reset-offsets", "--to-earliest", "--all-topics", "--execute")
    for what in (("--list",), reset, ("--delete-offsets", "--topic", TOPIC), ("--delete",)):
        groups_tool(address, *what, *(() if "--list" in what else ("--group", group)))


def in_python(tap: Tap, _: Path) -> None:
    """Two consumers, and an administrator."""
    address, group = tap.address, "in-python"
    with (
        closing(kafka_python(address, [TOPIC], group)) as first,
        closing(kafka_python(address, [TOPIC], group)) as second,
    ):
        until = polling(first, second)
        until(lambda: len(first.assignment()) == len(second.assignment()) > 0)
        until(tap.has_heartbeats)
        first.commit()
        with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
            admin.describe_groups([group])
            admin.list_groups()
            admin.describe_cluster()
            wait_for(lambda: admin.list_group_offsets([group])[group])
    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        admin.delete_group_offsets(group, [TopicPartition(TOPIC, 0)])
        admin.delete_groups([group])


def librdkafka(tap: Tap, _: Path) -> None:
    """Two consumers, a static one among them; a producer; an administrator."""
    address, group = tap.address, "in-c"
    first = Librdkafka(address, [TOPIC], group, group_instance_id="static", session_timeout_ms=6_000)
    second = Librdkafka(address, [TOPIC], group)
    until = polling(first, second)
    until(lambda: len(first.assignment()) == len(second.assignment()) > 0)
    until(tap.has_heartbeats)
    first.consumer.commit(
        offsets=[confluent_kafka.TopicPartition(TOPIC, each, 1) for each in first.assignment()],
        asynchronous=False,
    )
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    producer.produce(WRITTEN, b"x")
    producer.flush()
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
    for told in admin.describe_consumer_groups([group]).values():
        told.result()
    admin.list_consumer_groups().result()
    admin.describe_cluster().result()
    second.close()
    first.close()
    given = {"session_timeout_ms": None, "heartbeat_interval_ms": None, "group_protocol": "consumer"}
    newer = [Librdkafka(address, [TOPIC], f"{group}-newer", **given) for _ in range(2)]
    polling(*newer)(lambda: all(len(each.assignment()) == PARTITIONS // 2 for each in newer))
    for told in admin.describe_consumer_groups([f"{group}-newer"]).values():
        told.result()
    for each in newer:
        each.close()

    def is_deleted() -> bool:
        """Return whether the group is gone; the static one is a member until its session ends."""
        (told,) = admin.delete_consumer_groups([group]).values()
        return told.exception() is None

    wait_for(is_deleted)


def foreign(client: Client, tap: Tap, directory: Path) -> None:
    """The story that `make clients` tells, by the last of the client's strategies."""
    strategy = client.strategies[-1]
    tell(client.prepare(directory)(strategy), tap.address, f"{client.name}-{strategy}", directory)


STORIES: dict[str, Callable[[Tap, Path], None]] = {
    "java": java,
    "kafka-python": in_python,
    "librdkafka": librdkafka,
    # kcat is librdkafka as well.
    **{each.name: partial(foreign, each) for each in CLIENTS if each.name != "kcat"},
}


def main() -> None:
    """Run the clients that the arguments name, and write their files."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.record")
    parser.add_argument(
        "clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(STORIES)} (default: all)"
    )
    chosen = parser.parse_args().clients or list(STORIES)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="record-")))
        tap = stack.enter_context(Tap())
        at = {
            "advertised.listeners": f"PLAINTEXT://{tap.address}",
            "group.min.session.timeout.ms": "1000",
        }
        broker = stack.enter_context(EmbeddedBroker(directory / "kafka", overrides=at))
        host, _, port = broker.bootstrap_servers.rpartition(":")
        tap.broker = host, int(port)
        address = tap.address
        with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
            admin.create_topics(
                [NewTopic(each, num_partitions=PARTITIONS, replication_factor=1) for each in (TOPIC, WRITTEN)]
            )
        with closing(KafkaProducer(bootstrap_servers=address, acks="all")) as producer:
            for number in range(RECORDS):
                producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        for name in chosen:
            tap.client = name
            tap.exchanges.clear()
            try:
                STORIES[name](tap, directory / name)
            except Missing as missing:
                print(f"{name}: skipped; {missing}")
                continue
            found = list(tap.exchanges)
            here = re.compile(rb"\b%s\b" % re.escape(socket.gethostname().encode()))
            assert not any(here.search(each.request + each.response) for each in found), here.pattern
            write_exchanges(name, found)
            print(f"{name}: {len({each[1:3] for each in found})} of {len(found)} exchanges", flush=True)


if __name__ == "__main__":
    main()
