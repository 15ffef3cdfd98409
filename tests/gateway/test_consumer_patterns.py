"""Members of the consumer protocol that leave their patterns to the coordinator, through the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tests.foreign.__main__ import Missing, build_go
from tests.gateway.clients import Librdkafka, Program, groups_tool, java, polling
from tests.gateway.conftest import Running
from tests.jdk import find_javac
from tests.patience import wait_for

pytestmark = pytest.mark.spark

FIRST, SECOND, OTHER = "matched-first", "matched-second", "unmatched"


class Consumer(Librdkafka):
    """A member of the consumer protocol, which subscribes to `pattern`."""

    def __init__(self, address: str, pattern: str, group_id: str, **config: Any) -> None:
        given = {"session_timeout_ms": None, "heartbeat_interval_ms": None, "group_protocol": "consumer"}
        super().__init__(address, [pattern], group_id, **(given | config))

    def reads(self) -> set[str]:
        """The topics that it has partitions of."""
        return {each.topic for each in self.consumer.assignment()}


def create(running: Running, topic: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=running.gateway)) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    with closing(KafkaProducer(bootstrap_servers=running.gateway, acks="all")) as producer:
        for partition in range(2):
            producer.send(topic, topic.encode(), partition=partition)
        producer.flush()


@pytest.fixture(scope="module", autouse=True)
def filled(running: Running) -> None:
    for topic in (FIRST, OTHER):
        create(running, topic)


@pytest.fixture
def start(running: Running) -> Iterator[Callable[..., Consumer]]:
    with ExitStack() as stack:
        yield lambda *it, **config: stack.enter_context(closing(Consumer(running.gateway, *it, **config)))


def test_the_coordinator_finds_the_topics_of_a_pattern_and_those_made_later(
    running: Running, start: Callable[..., Consumer]
) -> None:
    member = start("^matched-.*", "of-a-pattern")
    polling(member)(lambda: member.reads() == {FIRST})
    told = groups_tool(running.gateway, "--describe", "--group", "of-a-pattern", "--members")
    assert "rdkafka" in told
    create(running, SECOND)
    polling(member)(lambda: member.reads() == {FIRST, SECOND})
    # Each partition is one member's.
    other = start("^matched-.*", "of-a-pattern")
    polling(member, other)(
        lambda: (
            len(member.consumer.assignment()) == len(other.consumer.assignment()) == 2
            and not set(map(str, member.consumer.assignment())) & set(map(str, other.consumer.assignment()))
        )
    )


def test_a_member_changes_its_pattern(start: Callable[..., Consumer]) -> None:
    member = start("^matched-f.*", "changes-its-pattern")
    polling(member)(lambda: member.reads() == {FIRST})
    member.consumer.subscribe(["^unm.*"])
    polling(member)(lambda: member.reads() == {OTHER})
    member.consumer.subscribe([FIRST])
    polling(member)(lambda: member.reads() == {FIRST})


def test_a_pattern_that_does_not_compile_ends_its_member(start: Callable[..., Consumer]) -> None:
    # librdkafka, which looks at it first, has no fault to find with it.
    member = start("^matched{1001}", "does-not-compile")
    told: list[KafkaError] = []

    def has_ended() -> bool:
        record = member.consumer.poll(0.05)
        told.extend(filter(None, [None if record is None else record.error()]))
        return bool(told)

    wait_for(has_ended)
    assert told[0].code() == KafkaError._FATAL
    assert "regular expression" in told[0].str()


def test_members_of_java_and_of_franz_go_find_topics_that_are_made_later(
    running: Running, tmp_path: Path
) -> None:
    find_javac()
    *command, _ = java("unused")
    program = str(Path(__file__).parent / "ConsumerOfPattern.java")
    # franz-go joins once it knows a topic that matches.
    create(running, "later-1")
    with ExitStack() as stack:
        of_java = stack.enter_context(
            Program(tmp_path / "java", [*command, program, running.gateway, "of-java", "later-.*"])
        )
        try:
            binary = build_go(tmp_path)
        except Missing:
            of_go = None
        else:
            given = ("franz-go", running.gateway, "^later-", "of-go", "server-side-regex")
            of_go = stack.enter_context(Program(tmp_path / "go", [binary, *given]))

        def has_found(number: int) -> bool:
            names = " ".join(f"later-{each}" for each in range(1, number + 1))
            is_gained = of_go is None or f"gained later-{number}" in of_go.said
            return f"reads {names}" in of_java.said and is_gained

        def said() -> list[str]:
            return [each.said for each in (of_java, of_go) if each is not None]

        wait_for(lambda: has_found(1), said=said)
        create(running, "later-2")
        wait_for(lambda: has_found(2), said=said)


def test_a_pattern_that_matches_nothing_is_no_error(running: Running, start: Callable[..., Consumer]) -> None:
    member = start("^no-such-.*", "matches-nothing")
    state = ("--describe", "--group", "matches-nothing", "--state")
    polling(member)(lambda: "Stable" in groups_tool(running.gateway, *state))
    assert member.reads() == set()
