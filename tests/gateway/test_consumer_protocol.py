"""Members of Kafka's consumer protocol (KIP-848) through the gateway: librdkafka's and Java's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tests.gateway.clients import Librdkafka, groups_tool, polling, run
from tests.gateway.conftest import Running
from tests.patience import wait_for

pytestmark = pytest.mark.spark

TOPIC = "consumer-protocol"
PARTITIONS = 6
RECORDS = 60


class Consumer(Librdkafka):
    """A member of the consumer protocol. The coordinator says how long its session is."""

    def __init__(self, address: str, group_id: str, **config: Any) -> None:
        given = {"session_timeout_ms": None, "heartbeat_interval_ms": None, "group_protocol": "consumer"}
        super().__init__(address, [TOPIC], group_id, **(given | config))


@pytest.fixture(scope="module", autouse=True)
def filled(running: Running) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=running.gateway)) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])
    with closing(KafkaProducer(bootstrap_servers=running.gateway, acks="all")) as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        producer.flush()


@pytest.fixture
def start(running: Running) -> Iterator[Callable[..., Consumer]]:
    with ExitStack() as stack:
        yield lambda *it, **config: stack.enter_context(closing(Consumer(running.gateway, *it, **config)))


def is_shared(*members: Consumer) -> bool:
    """Whether each partition is one member's, and no member has more than one more than another."""
    owned = [each.assignment() for each in members]
    sizes = [len(each) for each in owned]
    everything = sorted(partition for each in owned for partition in each)
    return everything == list(range(PARTITIONS)) and max(sizes) - min(sizes) <= 1


def test_members_come_and_go_and_read_everything(start: Callable[..., Consumer]) -> None:
    first = start("grows")
    polling(first)(lambda: is_shared(first))
    polling(first)(lambda: len(first.read) == RECORDS)
    first.consumer.commit(asynchronous=False)
    others = [start("grows"), start("grows")]
    polling(first, *others)(lambda: is_shared(first, *others))
    # Nobody stops for a rebalance: what it keeps it is never told to give up.
    assert all(len(moved) < PARTITIONS for kind, moved in first.moves if kind == "revoked")
    # They went on with what was committed.
    assert [each.read for each in others] == [[], []]
    others.pop().close()
    polling(first, *others)(lambda: is_shared(first, *others))


def test_a_static_member_that_restarts_gets_its_share_back(start: Callable[..., Consumer]) -> None:
    stays, restarts = (start("static", group_instance_id=it) for it in ("a", "b"))
    polling(stays, restarts)(lambda: is_shared(stays, restarts))
    before = restarts.assignment()
    moves = len(stays.moves)
    restarts.close()
    again = start("static", group_instance_id="b")
    polling(stays, again)(lambda: again.assignment() == before)
    assert len(stays.moves) == moves, "nobody else notices"


def test_kafkas_tools_know_the_group(running: Running, start: Callable[..., Consumer]) -> None:
    member = start("told")
    polling(member)(lambda: is_shared(member))
    polling(member)(lambda: len(member.read) == RECORDS)
    member.consumer.commit(asynchronous=False)
    listed = groups_tool(running.gateway, "--list", "--type", "consumer").split()
    assert "told" in listed
    assert "told" not in groups_tool(running.gateway, "--list", "--type", "classic").split()
    told = groups_tool(running.gateway, "--describe", "--group", "told", "--members", "--verbose")
    assert f"{TOPIC}:" in told.replace(" ", "")
    assert "rdkafka" in told
    state = groups_tool(running.gateway, "--describe", "--group", "told", "--state")
    assert "Stable" in state
    assert "uniform" in state
    lag = groups_tool(running.gateway, "--describe", "--group", "told")
    assert lag.count(TOPIC) == PARTITIONS


def test_javas_consumer_reads_everything(running: Running) -> None:
    done = run(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", running.gateway, "--topic", TOPIC, "--group", "of-java", "--from-beginning"),
        *("--max-messages", str(RECORDS), "--timeout-ms", "120000"),
        *("--command-property", "group.protocol=consumer"),
    )
    assert sorted(map(int, done.stdout.split())) == list(range(RECORDS)), done.stderr
    wait_for(lambda: "Empty" in groups_tool(running.gateway, "--describe", "--group", "of-java", "--state"))


def test_a_group_with_members_does_not_change_its_protocol(
    running: Running, start: Callable[..., Consumer]
) -> None:
    member = start("one-protocol")
    polling(member)(lambda: is_shared(member))
    done = run(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", running.gateway, "--topic", TOPIC, "--group", "one-protocol"),
        *("--command-property", "group.protocol=classic"),
    )
    assert "InconsistentGroupProtocolException" in done.stdout + done.stderr
    polling(member)(lambda: is_shared(member))
