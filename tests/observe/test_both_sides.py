"""The same script of real clients at a broker that is observed, and at the coordinator: two histories agree.

They agree but for causes, which a broker does not write down, and for times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from group_coordinator.coordinator_state.events import AnyEvent, MemberAdded, MemberFenced, MemberRemoved
from group_coordinator.demo.observer import Observer, partitions_in
from tests.commands.job import Job, ObserveJob
from tests.gateway.clients import Librdkafka, VerifiableConsumer, kafka_python, polling
from tests.gateway.conftest import start_gateway

pytestmark = [pytest.mark.spark, pytest.mark.verify]

PARTITIONS = 12
SESSION_MS = 15_000
"""Long enough for a client on a busy machine. Two of them have to pass in each script."""
CONSUMERS = "consumer"
"""Members of the consumer protocol instead. The broker, or the coordinator, has set their sessions."""
JAVA = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


class ConsumerOfJava(VerifiableConsumer):
    PROTOCOL = ("--group-protocol", "consumer")


class Told(NamedTuple):
    """The history of one step of the script: whoever came, went and restarted, and the partitions of each."""

    came: set[str]
    went: set[str]
    restarted: set[str | None]
    owned: dict[str, int]


class Side(NamedTuple):
    address: str
    observer: Observer


@pytest.fixture
def sides(bootstrap_servers: str, tmp_path: Path) -> Iterator[Callable[[str], dict[str, Side]]]:
    with ExitStack() as stack:
        job = Job(bootstrap_servers, tmp_path, f"here-{tmp_path.name}")
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        # A broker makes its log of groups when somebody asks for a coordinator.
        with closing(kafka_python(bootstrap_servers, [], "first")) as first:
            first.committed(TopicPartition("nothing", 0))
        watching = ObserveJob(bootstrap_servers, tmp_path, f"there-{tmp_path.name}")
        stack.callback(watching.kill)
        watching.wait_for("watching the groups at ")
        gateway = start_gateway(tmp_path, bootstrap_servers, job.topics)
        stack.callback(gateway.kill)
        addresses = {"coordinator": gateway.wait_for("clients find the gateway at ")}
        addresses["brokers"] = bootstrap_servers

        def of(group: str) -> dict[str, Side]:
            found = {}
            for name, topics in (("coordinator", job.topics), ("brokers", watching.topics)):
                observer = Observer(bootstrap_servers, group, topics["groups"], topics["events"])
                found[name] = Side(addresses[name], stack.enter_context(observer))
            return found

        yield of


class Script:
    """Plays the script at one side, and writes down what is told of each step once it is over."""

    def __init__(self, side: Side, topic: str, group: str, strategy: str, directory: Path) -> None:
        self._side, self._topic, self._group = side, topic, group
        self._strategy, self._directory = strategy, directory
        self._members: dict[str, Any] = {}
        self._read = 0
        self.told: list[Told] = []

    def play(self) -> list[Told]:
        with ExitStack() as stack:
            stack.callback(self._end)
            java = f"consumer-{self._group}-1"
            self._members[java] = self._of_java()
            self._settle()
            for number in range(2, 6):
                self._join(f"rd-{number}")
            self._settle()
            self._members.pop(java).kill()
            self._settle()
            for name in ("rd-4", "rd-5"):
                self._members.pop(name).close()
            self._join("static", group_instance_id="static")
            self._settle()
            # One that is static does not leave.
            self._members.pop("static").close()
            self._join("static", group_instance_id="static")
            self._settle(restarted=1)
            for name in ("rd-2", "rd-3", "static"):
                self._members.pop(name).close()
            self._settle()
        return self.told

    def _of_java(self) -> VerifiableConsumer:
        where = self._directory, self._side.address, self._topic, self._group
        if self._strategy == CONSUMERS:
            return ConsumerOfJava(*where)
        strategy = "--assignment-strategy", JAVA[self._strategy]
        return VerifiableConsumer(*where, "--session-timeout", str(SESSION_MS), *strategy)

    def _join(self, name: str, **more: str) -> None:
        config: dict[str, Any] = {
            "session_timeout_ms": SESSION_MS,
            "partition_assignment_strategy": self._strategy,
        }
        if self._strategy == CONSUMERS:
            config = dict.fromkeys(("session_timeout_ms", "heartbeat_interval_ms"))
            config["group_protocol"] = "consumer"
        self._members[name] = Librdkafka(
            self._side.address, [self._topic], self._group, client_id=name, **config, **more
        )

    def _settle(self, restarted: int = 0) -> None:
        """Wait until the history says what the clients themselves say, and that so many have restarted."""
        polling(*self._members.values())(lambda: self._is_settled(restarted))
        picture = self._side.observer.picture
        assert picture is not None
        events = self._side.observer.events
        new: list[AnyEvent] = events[self._read :]
        before, after = _members_after(events[: self._read]), _members_after(events)
        self._read = len(events)
        fenced = [each for each in new if isinstance(each, MemberFenced)]
        replaced = {each.member_id for each in fenced} | {each.replaced_by for each in fenced}
        names = {each.member_id: each.client_id for each in events if isinstance(each, MemberAdded)}
        names |= {each.replaced_by: each.client_id for each in events if isinstance(each, MemberFenced)}
        self.told.append(
            Told(
                {names[each] for each in after - before - replaced},
                {names[each] for each in before - after - replaced},
                {each.group_instance_id for each in fenced},
                {each.client_id: len(partitions_in(each.member_assignment)) for each in picture.members},
            )
        )

    def _is_settled(self, restarted: int) -> bool:
        self._side.observer.look()
        picture, events = self._side.observer.picture, self._side.observer.events
        if picture is None or picture.state != ("Stable" if self._members else "Empty"):
            return False
        owned = {each.client_id: partitions_in(each.member_assignment) for each in picture.members}
        said = {name: each.assignment() for name, each in self._members.items()}
        fenced = [each for each in events[self._read :] if isinstance(each, MemberFenced)]
        return (
            owned == said
            and sum(map(len, owned.values())) == (PARTITIONS if owned else 0)
            and {each.member_id for each in picture.members} == _members_after(events)
            and len(fenced) == restarted
        )

    def _end(self) -> None:
        for member in self._members.values():
            member.close()


def _members_after(events: list[AnyEvent]) -> set[str]:
    """The members that are there after these events."""
    ids: set[str] = set()
    for event in events:
        match event:
            case MemberAdded():
                ids.add(event.member_id)
            case MemberRemoved():
                ids.discard(event.member_id)
            case MemberFenced():
                ids -= {event.member_id}
                ids |= {event.replaced_by}
    return ids


@pytest.mark.parametrize("strategy", [*JAVA, CONSUMERS])
def test_two_histories_agree_but_for_causes(
    sides: Callable[[str], dict[str, Side]], bootstrap_servers: str, tmp_path: Path, strategy: str
) -> None:
    topic = f"both-sides-{strategy}"
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        admin.create_topics({topic: {"num_partitions": PARTITIONS}})
        admin.wait_for_topics([topic])
    found = {
        name: Script(side, topic, topic, strategy, tmp_path / name).play()
        for name, side in sides(topic).items()
    }
    sizes = {name: [sorted(each.owned.values()) for each in told] for name, told in found.items()}
    assert sizes["brokers"] == sizes["coordinator"]
    if strategy == CONSUMERS:
        # Member ids, which decide there who has one partition more, are drawn by lot.
        found = {name: [each._replace(owned={}) for each in told] for name, told in found.items()}
    assert found["brokers"] == found["coordinator"]
    java = f"consumer-{topic}-1"
    assert [each.came for each in found["brokers"]] == [
        {java},
        {"rd-2", "rd-3", "rd-4", "rd-5"},
        set(),
        {"static"},
        set(),
        set(),
    ]
    assert [each.went for each in found["brokers"]] == [
        set(),
        set(),
        {java},
        {"rd-4", "rd-5"},
        set(),
        {"rd-2", "rd-3", "static"},
    ]
    assert found["brokers"][4].restarted == {"static"}
