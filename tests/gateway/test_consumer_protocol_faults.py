"""Members of the consumer protocol (KIP-848) while parts are killed or paused: nobody is fenced who beats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewPartitions, NewTopic

from tests.commands.job import Job, Process, set_all
from tests.foreign.__main__ import Member, Missing, build_go
from tests.gateway.clients import Librdkafka, VerifiableConsumer, groups_tool, polling
from tests.gateway.conftest import start_gateway
from tests.gateway.ports import ports_in_a_row
from tests.patience import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.verify]

PARTITIONS = 6
INTERVAL_S, SESSION_S, PAUSE_S = 2, 10, 20
assert PAUSE_S > SESSION_S > INTERVAL_S
RECORDS = 60


class Consumer(Librdkafka):
    """A member of the consumer protocol. The coordinator says how long its session is."""

    def __init__(self, address: str, topic: str, **config: Any) -> None:
        given = {"session_timeout_ms": None, "heartbeat_interval_ms": None, "group_protocol": "consumer"}
        super().__init__(address, [topic], topic, **(given | config))


class ConsumerOfJava(VerifiableConsumer):
    """The same of Java. It can be killed."""

    PROTOCOL = ("--group-protocol", "consumer")


class World:
    """A coordinator and a gateway of their own, beside a broker, and a topic for each story."""

    def __init__(self, directory: Path, broker: str, stack: ExitStack) -> None:
        self.directory, self.broker, self._stack = directory, broker, stack
        self.port = ports_in_a_row(3)  # the node id of the broker is 1
        self.job = self.start_job()
        self.gateway = self.start_gateway()
        self._numbers = count()

    def start_job(self) -> Job:
        settings = {
            "group.consumer.heartbeat.interval.ms": str(1_000 * INTERVAL_S),
            "group.consumer.session.timeout.ms": str(1_000 * SESSION_S),
        }
        self.job = Job(self.broker, self.directory, "consumer-faults", *set_all(settings))
        self._stack.callback(self.job.kill)
        return self.job

    def start_gateway(self) -> Process:
        self.job.wait_for("the coordinator is running")
        listen = f"127.0.0.1:{self.port}"
        self.gateway = start_gateway(self.directory, self.broker, self.job.topics, listen=listen)
        self._stack.callback(self.gateway.kill)
        self.address = self.gateway.wait_for("clients find the gateway at ")
        return self.gateway

    def make(self, topic: str, partitions: int = PARTITIONS) -> None:
        with closing(KafkaAdminClient(bootstrap_servers=self.broker)) as admin:
            admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])

    def fill(self, topic: str, partitions: int = PARTITIONS) -> None:
        """Write more records, each another one."""
        with closing(KafkaProducer(bootstrap_servers=self.broker, acks="all")) as producer:
            for _ in range(RECORDS):
                number = next(self._numbers)
                producer.send(topic, b"%d" % number, partition=number % partitions)
            producer.flush()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, bootstrap_servers: str) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path_factory.mktemp("faults"), bootstrap_servers, stack)


@pytest.fixture
def start(world: World) -> Iterator[Callable[..., Consumer]]:
    with ExitStack() as stack:
        yield lambda *it, **config: stack.enter_context(closing(Consumer(world.address, *it, **config)))


def is_shared(*members: Any, partitions: int = PARTITIONS) -> bool:
    """Whether each partition is one member's, and no member has more than one more than another."""
    owned = [each.assignment() for each in members]
    sizes = [len(each) for each in owned]
    everything = sorted(partition for each in owned for partition in each)
    return everything == list(range(partitions)) and max(sizes) - min(sizes) <= 1


class Story:
    """Three members that read a topic and commit."""

    def __init__(self, world: World, start: Callable[..., Consumer], topic: str) -> None:
        self.world, self.topic = world, topic
        world.make(topic)
        self.members = [start(topic) for _ in range(3)]
        self.poll = polling(*self.members)
        self.poll(lambda: is_shared(*self.members))
        self.read_more()
        self.moves = [list(each.moves) for each in self.members]

    def records(self) -> list[bytes]:
        return [record for each in self.members for record in each.read]

    def read_more(self) -> None:
        """Let more be written, read and committed."""
        before = len(self.records())
        self.world.fill(self.topic)
        self.poll(lambda: len(self.records()) >= before + RECORDS)
        for each in self.members:
            each.consumer.commit(asynchronous=False)

    def nobody_noticed(self) -> None:
        """Read more: nobody's partitions have moved, and each record was read once."""
        self.read_more()
        assert is_shared(*self.members)
        assert [each.moves for each in self.members] == self.moves
        self.each_was_read_once()

    def each_was_read_once(self) -> None:
        assert len(self.records()) == len(set(self.records()))

    def is_over_after(self, seconds: float) -> Callable[[], bool]:
        since_s = time.monotonic()
        return lambda: time.monotonic() - since_s > seconds


def test_a_coordinator_that_is_killed_and_comes_back(world: World, start: Callable[..., Consumer]) -> None:
    story = Story(world, start, "killed")
    world.job.kill()
    again = world.start_job()
    story.poll(lambda: any(line.startswith("the coordinator is running") for line in again.said))
    story.nobody_noticed()


def test_a_coordinator_that_is_away_for_longer_than_a_session(
    world: World, start: Callable[..., Consumer]
) -> None:
    story = Story(world, start, "paused")
    world.job.pause()
    try:
        story.poll(story.is_over_after(PAUSE_S))
    finally:
        world.job.resume()
    story.nobody_noticed()


def test_a_coordinator_that_is_away_while_members_are_on_their_way(
    world: World, start: Callable[..., Consumer]
) -> None:
    story = Story(world, start, "on-their-way")
    world.job.pause()
    try:
        more = [start("on-their-way") for _ in range(2)]
        polling(*story.members, *more)(story.is_over_after(PAUSE_S))
    finally:
        world.job.resume()
    story.members += more
    story.poll = polling(*story.members)
    story.poll(lambda: is_shared(*story.members))
    story.read_more()
    assert not [kind for each in story.members for kind, _ in each.moves if kind == "lost"]
    # They were told what to give up, and gave up no more.
    revoked = [moved for each in story.members[:3] for kind, moved in each.moves if kind == "revoked"]
    assert sum(map(len, revoked)) <= PARTITIONS


def test_a_gateway_that_is_killed_and_comes_back(world: World, start: Callable[..., Consumer]) -> None:
    story = Story(world, start, "gateway")
    world.gateway.kill()
    world.start_gateway()
    story.poll(story.is_over_after(2 * INTERVAL_S))
    story.nobody_noticed()


def test_members_come_leave_and_are_killed(
    world: World, start: Callable[..., Consumer], tmp_path: Path
) -> None:
    world.make("come-and-go")
    world.fill("come-and-go")
    first = start("come-and-go")
    polling(first)(lambda: is_shared(first))
    polling(first)(lambda: len(first.read) == RECORDS)
    first.consumer.commit(asynchronous=False)
    others = [start("come-and-go") for _ in range(3)]
    with ConsumerOfJava(tmp_path, world.address, "come-and-go", "come-and-go") as killed:
        polling(first, *others)(lambda: is_shared(first, *others, killed))
        # It says nothing of that. Its session has to end first.
        killed.kill()
        polling(first, *others)(lambda: is_shared(first, *others))
    for each in others[1:]:
        each.close()
    left = others[0]
    polling(first, left)(lambda: is_shared(first, left))
    assert not [kind for each in (first, *others) for kind, _ in each.moves if kind == "lost"]
    state = groups_tool(world.address, "--describe", "--group", "come-and-go", "--members")
    assert state.count("rdkafka") == 2


def test_a_topic_that_is_made_after_its_members_have_come_and_grows(
    world: World, start: Callable[..., Consumer]
) -> None:
    members = [start("made-later") for _ in range(2)]
    poll = polling(*members)
    poll(lambda: "made-later" in groups_tool(world.address, "--list", "--type", "consumer").split())
    assert [each.assignment() for each in members] == [set(), set()]
    world.make("made-later", 2)
    poll(lambda: is_shared(*members, partitions=2))
    before = [each.assignment() for each in members]
    with closing(KafkaAdminClient(bootstrap_servers=world.broker)) as admin:
        admin.create_partitions({"made-later": NewPartitions(PARTITIONS)})
    poll(lambda: is_shared(*members))
    assert all(had <= each.assignment() for had, each in zip(before, members, strict=True))
    world.fill("made-later")
    poll(lambda: sum(len(each.read) for each in members) == RECORDS)


def test_franz_go_reads_everything_and_leaves(
    world: World, start: Callable[..., Consumer], tmp_path: Path
) -> None:
    try:
        binary = build_go(tmp_path)
    except Missing as missing:
        pytest.skip(f"{missing}")
    world.make("franz")
    world.fill("franz")
    command = [binary, "franz-go", world.address, "franz", "franz", "server-side"]
    with Member(tmp_path / "1", command) as first, Member(tmp_path / "2", command) as second:

        def share() -> bool:
            return len(first.owns) == len(second.owns) == PARTITIONS // 2

        wait_for(share, said=lambda: [first.said, second.said])
        wait_for(lambda: first.read + second.read == RECORDS, said=lambda: [first.said, second.said])
        assert "franz" in groups_tool(world.address, "--list", "--type", "consumer").split()
        beside = start("franz")
        polling(beside)(lambda: len(beside.assignment()) == len(first.owns) == len(second.owns) == 2)
        assert beside.read == [], "they have committed"
        second.leave()
        polling(beside)(lambda: len(beside.assignment()) == len(first.owns) == 3)
        first.leave()
        polling(beside)(partial(is_shared, beside))
