"""Groups of the consumer protocol at live brokers: what is told is what ConsumerGroupDescribe says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from group_coordinator.brokers_log.records import Unreadable, read_record, topic_ids
from group_coordinator.brokers_log.step import step
from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.history.rows import read_event
from group_coordinator.history.story import Story
from group_coordinator.observe.names import TopicNames
from tests.brokers_log.test_live import GROUP, OTHERS, Log
from tests.brokers_log.watching import partitions
from tests.gateway.clients import Librdkafka, VerifiableConsumer
from tests.patience import wait_for

pytestmark = pytest.mark.spark

SESSION_MS = 10_000
SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


class OfJava(VerifiableConsumer):
    PROTOCOL = ("--group-protocol", "consumer")


@pytest.fixture(params=["broker", pytest.param("broker-4.4", marks=OTHERS)])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with EmbeddedBroker(tmp_path / "kafka", jars=request.param, overrides=SETTINGS) as broker:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
            admin.create_topics({"t": {"num_partitions": 4}, "u": {"num_partitions": 1}})
            admin.wait_for_topics(["t", "u"])
        yield broker.bootstrap_servers


class NamedLog(Log):
    """The log of the group, told with the names that the broker knows."""

    def __init__(self, servers: str) -> None:
        super().__init__(servers)
        self._names = TopicNames(servers, {})

    def told(self, channel: Channel) -> list[Any]:
        records = self.records()
        names = self._names(topic_ids(records))
        outputs = step(GROUP.encode(), None, records, 0, 0, names).outputs
        return [it.value and json.loads(it.value) for it in outputs if it.channel is channel]

    def events(self) -> list[AnyEvent]:
        read = [read_event(json.dumps(each)) for each in self.told(Channel.EVENTS)]
        return [each for each in read if each is not None]


def in_short(topic_partitions: Iterable[Any]) -> str:
    return " ".join(sorted(f"{each.topic}{each.partition}" for each in topic_partitions))


class World:
    """The members, and what the two sides say of them."""

    def __init__(
        self, servers: str, stack: ExitStack, first: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._servers = servers
        self.members: list[Librdkafka] = []
        stack.callback(self.leave)
        self._judge = AdminClient({"bootstrap.servers": servers})
        self.join("first", **first)
        # A broker makes its log for the first group.
        wait_for(self.members[0].assignment, meanwhile=self.poll)
        self.log = stack.enter_context(closing(NamedLog(servers)))

    def join(self, client_id: str, **more: str | None) -> Librdkafka:
        given = {"session_timeout_ms": None, "heartbeat_interval_ms": None, "group_protocol": "consumer"}
        config = given | {"client_id": client_id} | more
        self.members.append(Librdkafka(self._servers, ["t", "u"], GROUP, **config))
        return self.members[-1]

    def leave(self) -> None:
        while self.members:
            self.members.pop().close()

    def poll(self) -> None:
        for each in self.members:
            each.poll(20)

    def described(self) -> dict[str, tuple[Any, ...]]:
        """The state, and each member with all it has and is to have, as the broker says."""
        (asked,) = self._judge.describe_consumer_groups([GROUP]).values()
        told = asked.result()
        assert told.type.name == "CONSUMER"
        return {"": (told.state.name.title(),)} | {
            it.member_id: (
                it.client_id,
                it.host,
                it.group_instance_id,
                in_short(it.assignment.topic_partitions),
                in_short(it.target_assignment.topic_partitions),
            )
            for it in told.members
        }

    def pictured(self) -> dict[str, tuple[Any, ...]]:
        """The same as it is told."""
        picture = self.log.picture()
        assert picture["group_type"] == "consumer"
        return {"": (picture["state"],)} | {
            it["member_id"]: (
                it["client_id"],
                it["client_host"],
                it["group_instance_id"],
                partitions(it["member_assignment"]),
                partitions(it["target_assignment"]),
            )
            for it in picture["members"]
        }

    def settle(self, members: int) -> None:
        """Wait until both say the same of so many members, and that the group is Stable."""

        def agrees() -> bool:
            theirs = self.described()
            return theirs[""] == ("Stable",) and len(theirs) == members + 1 and self.pictured() == theirs

        wait_for(agrees, meanwhile=self.poll, said=lambda: f"{self.described()}\n{self.pictured()}")

    def has(self, kind: str) -> None:
        """Wait until such an event was told."""
        wait_for(lambda: kind in self.log.kinds(), meanwhile=self.poll)


def play(world: World, admin: KafkaAdminClient, java: Callable[[], OfJava]) -> None:
    """Members come and go in all ways that there are."""
    world.settle(1)
    world.join("second")
    static = world.join("static", group_instance_id="static")
    world.settle(3)
    admin.create_partitions({"t": 6})
    wait_for(lambda: "t5" in f"{world.pictured()}", meanwhile=world.poll)
    world.settle(3)
    # A static member leaves for a while, and comes back.
    world.members.remove(static)
    static.close()
    world.has("member_away")
    world.join("static", group_instance_id="static")
    world.settle(3)
    world.has("member_fenced")
    # One of another kind comes, and is killed.
    with java() as killed:
        world.settle(4)
        killed.kill()
        world.settle(3)
    world.leave()
    wait_for(lambda: world.log.picture()["state"] == "Empty")
    admin.delete_groups([GROUP])
    wait_for(lambda: world.log.picture() is None)


def test_what_is_told_is_what_the_coordinator_says(servers: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        admin = stack.enter_context(closing(KafkaAdminClient(bootstrap_servers=servers)))
        world = World(servers, stack)
        play(world, admin, lambda: OfJava(tmp_path / "java", servers, "t", GROUP))
        told = world.log.told(Channel.EVENTS)
        kinds = [each["event"] for each in told]
        assert (kinds[0], kinds[-1]) == ("group_created", "group_deleted")
        assert kinds.count("member_added") == kinds.count("member_removed") == 4
        causes = {each["cause"] for each in told if each.get("cause")}
        assert causes == {"member_joined", "topics_changed", "member_left", "unknown"}
        assert [each for each in told if "not written down" in each.get("reason", "")] == []
        story = Story.of_events(GROUP, enumerate(world.log.events()))
        assert {each.topic for each in story.assignments} == {"t", "u"}
        assert all(each.until is not None for each in (*story.assignments, *story.memberships, *story.waits))
        unread = [read_record(it.key, it.value) for it in world.log.records()]
        assert not [it for it in unread if isinstance(it, Unreadable)]


def test_a_group_is_moved_to_the_other_protocol_and_back_while_it_has_members(servers: str) -> None:
    """Kafka lets members of both protocols be in one group (`group.consumer.migration.policy`)."""
    with ExitStack() as stack:
        classic = {"group_protocol": "classic", "session_timeout_ms": "45000", "heartbeat_interval_ms": "500"}
        world = World(servers, stack, classic)

        def kind() -> str:
            picture = world.log.picture()
            return f"{picture['group_type']} {picture['state']} {len(picture['members'])}"

        def becomes(told: str) -> None:
            wait_for(lambda: kind() == told, meanwhile=world.poll, said=kind)

        becomes("classic Stable 1")
        newer = world.join("newer")
        becomes("consumer Stable 2")
        world.settle(2)
        sessions = {it["client_id"]: it["session_timeout_ms"] for it in world.log.picture()["members"]}
        assert sessions == {"first": 45_000, "newer": 0}
        world.members.remove(newer)
        newer.close()
        becomes("classic Stable 1")
        changes = [it for it in world.log.told(Channel.EVENTS) if it["event"] == "group_type_changed"]
        assert [(it["from"], it["to"]) for it in changes] == [
            ("classic", "consumer"),
            ("consumer", "classic"),
        ]
        told = [it["client_id"] for it in world.log.told(Channel.EVENTS) if it["event"] == "member_added"]
        assert told == ["first", "newer"]
        gone = [it["client_id"] for it in world.log.told(Channel.EVENTS) if it["event"] == "member_removed"]
        assert gone == ["newer"]
        assert "group_deleted" not in world.log.kinds()
