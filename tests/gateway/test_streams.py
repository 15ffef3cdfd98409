"""Kafka Streams, at least once, with the gateway as its bootstrap server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.gateway.clients import Program, java_command
from tests.gateway.conftest import Running
from tests.patience import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.verify]

# Those of Kafka's WordCountDemo.
TEXTS, COUNTS = "streams-plaintext-input", "streams-wordcount-output"
APPLICATION = "streams-at_least_once-classic"
EACH = "each"


@pytest.fixture(scope="module", autouse=True)
def _topics(running: Running) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=running.gateway)) as admin:
        # Another test may have left them, with what it has counted.
        if left := {TEXTS, COUNTS} & set(admin.list_topics()):
            admin.delete_topics(sorted(left))
        wait_for(lambda: not {TEXTS, COUNTS} & set(admin.list_topics()))
        topics = [NewTopic(name, num_partitions=2, replication_factor=1) for name in (TEXTS, COUNTS)]
        admin.create_topics(topics)


def start(
    directory: Path, address: str, guarantee: str = "at_least_once", protocol: str = "classic"
) -> Program:
    directory.mkdir(exist_ok=True)
    settings = {
        "application.id": f"streams-{guarantee}-{protocol}",
        "bootstrap.servers": address,
        "processing.guarantee": guarantee,
        "group.protocol": protocol,
        "state.dir": directory / "state",
        "commit.interval.ms": 500,
        "consumer.session.timeout.ms": 6000,
        "consumer.heartbeat.interval.ms": 500,
    }
    config = directory / "streams.properties"
    config.write_text("".join(f"{name}={it}\n" for name, it in settings.items()))
    main = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
    command = java_command(main, str(config), jars=("streams",))
    return Program(directory / "said", [command[0], "-Dlog4j2.level=INFO", *command[1:]])


def test_counts_are_complete_after_kills(running: Running, tmp_path: Path) -> None:
    """Each text has a word that all have, and one of its own."""
    written = {EACH: 0}

    def write(count: int) -> None:
        with closing(KafkaProducer(bootstrap_servers=running.gateway, acks="all")) as producer:
            for number in range(written[EACH], written[EACH] + count):
                producer.send(TEXTS, f"{EACH} own{number}".encode(), partition=number % 2)
                written[f"own{number}"] = 1
            producer.flush()
        written[EACH] += count

    with ExitStack() as stack:
        reader = KafkaConsumer(bootstrap_servers=running.gateway, enable_auto_commit=False)
        stack.enter_context(closing(reader))
        reader.assign([TopicPartition(COUNTS, number) for number in range(2)])
        reader.seek_to_beginning()
        counts: dict[str, int] = {}
        instances: list[Program] = []

        def begin(name: str) -> Program:
            instances.append(stack.enter_context(start(tmp_path / name, running.gateway)))
            return instances[-1]

        def until(condition: Callable[[], object]) -> None:
            wait_for(condition, said=lambda: "\n".join([str(counts), *(it.said[-4000:] for it in instances)]))

        def is_counted() -> bool:
            for records in reader.poll(timeout_ms=100).values():
                counts.update({it.key.decode(): int.from_bytes(it.value) for it in records})
            # After a kill some may be counted again: that is what at least once means.
            return counts.keys() == written.keys() and all(counts[it] >= written[it] for it in written)

        def shares() -> list[int]:
            """How many partitions each instance reads, of the texts and of Streams' own topic of words."""
            owners = Counter(each["consumer_id"] for each in running.describe(APPLICATION))
            return sorted(number for owner, number in owners.items() if owner is not None)

        first = begin("first")
        write(50)
        until(is_counted)
        assert counts == written
        second = begin("second")
        until(lambda: shares() == [2, 2])

        write(50)
        first.kill()
        write(50)
        until(is_counted)
        until(lambda: shares() == [4])

        second.kill()
        write(50)
        # It has the state that it had when it was killed, and brings it up to date.
        begin("first")
        until(is_counted)
        until(lambda: [each["lag"] for each in running.describe(APPLICATION)] == [0] * 4)


@pytest.mark.parametrize(
    ("guarantee", "protocol", "why"),
    [
        ("exactly_once_v2", "classic", "The node does not support TXN_OFFSET_COMMIT"),
        ("at_least_once", "streams", "The cluster does not support the STREAMS group protocol"),
    ],
)
def test_what_is_not_offered_ends_with_an_error_that_says_why(
    running: Running, tmp_path: Path, guarantee: str, protocol: str, why: str
) -> None:
    with closing(KafkaProducer(bootstrap_servers=running.gateway, acks="all")) as producer:
        producer.send(TEXTS, b"uncounted").get()
    with start(tmp_path, running.gateway, guarantee, protocol) as refused:
        ended = "State transition from PENDING_ERROR to ERROR"
        wait_for(lambda: ended in refused.said, said=lambda: refused.said)
    assert f"UnsupportedVersionException: {why}" in refused.said
    group = f"streams-{guarantee}-{protocol}"
    with closing(KafkaAdminClient(bootstrap_servers=running.gateway)) as admin:
        assert admin.list_group_offsets([group])[group] == {}
