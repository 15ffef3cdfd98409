"""Groups that are moved here and back while their members read, through a gateway, with a ledger."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import chain, count
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import InconsistentGroupProtocolError
from kafka.structs import TopicPartition

from group_coordinator.client.admin import AdminClient
from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.brokers_guard import is_guard
from tests.commands.job import COMMAND, Process
from tests.foreign.__main__ import Member as Foreign
from tests.foreign.__main__ import Missing, build_go
from tests.gateway.clients import Librdkafka, console_consumer, kafka_python
from tests.gateway.conftest import Running, start_gateway
from tests.patience import PATIENCE_S, wait_for

pytestmark = pytest.mark.spark

PARTITIONS = 4
FLEET, JAVAS, FRANZES = 20, 2, 2
GROUPS, GROUP_SIZE = 20, 10
JAVA = {"session.timeout.ms": "10000", "enable.auto.commit": "true", "auto.commit.interval.ms": "500"}
_numbers = count()


class Stage:
    """A gateway with all groups at the brokers, and the command."""

    def __init__(self, running: Running, process: Process, sides: str) -> None:
        self.running, self.process, self.sides = running, process, sides
        self.address = process.wait_for("clients find the gateway at ")

    def command(self, group_id: str, to: str, *arguments: str) -> list[str]:
        topics = self.running.job.topics
        return [
            *(*COMMAND, "move", group_id, "--to", to, "--bootstrap-server", self.running.broker),
            *("--request-topic", topics["requests"], "--response-topic", topics["responses"]),
            *("--sides-topic", self.sides, *arguments),
        ]

    def move(self, group_id: str, to: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(group_id, to, *arguments),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def topic(self, partitions: int = PARTITIONS) -> str:
        name = f"move-{secrets.token_hex(3)}"
        with closing(KafkaAdminClient(bootstrap_servers=self.running.broker)) as admin:
            admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1)])
            admin.wait_for_topics([name])
        return name

    def members(self, group_id: str) -> dict[str, int]:
        """How many members each side has."""
        topics = self.running.job.topics
        with AdminClient(
            bootstrap_servers=self.running.broker,
            request_topic=topics["requests"],
            response_topic=topics["responses"],
        ) as admin:
            here = admin.describe_groups([group_id])[group_id].members
        with BrokersAdmin(bootstrap_servers=self.running.broker) as brokers:
            there = brokers.describe_groups([group_id])[group_id].members
        return {"coordinator": len(here), "brokers": sum(not is_guard(each) for each in there)}


def start(running: Running, sides: str, *arguments: str) -> Process:
    return start_gateway(
        running.directory,
        running.broker,
        running.job.topics,
        *("--set", "gateway.groups.brokers=*", "--set", f"topics.sides={sides}", *arguments),
    )


@pytest.fixture(scope="module")
def stage(running: Running) -> Iterator[Stage]:
    sides = f"sides-{next(_numbers)}"
    process = start(running, sides)
    try:
        yield Stage(running, process, sides)
        process.terminate()
        assert process.exit_code() == 0, process.said
    finally:
        process.kill()


class Work:
    """Writes records all the time, each with its partition and its number there."""

    def __init__(self, servers: str, topic: str, partitions: int, every_s: float = 0.02) -> None:
        self._topic, self._partitions, self._every_s = topic, partitions, every_s
        self._producer = KafkaProducer(bootstrap_servers=servers, acks="all")
        self._stopping = threading.Event()
        self.written = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            for partition in range(self._partitions):
                self._producer.send(self._topic, b"%d-%d" % (partition, self.written), partition=partition)
            self.written += 1

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.close()

    @property
    def all(self) -> set[bytes]:
        numbers = range(self.written)
        return {b"%d-%d" % (partition, it) for partition in range(self._partitions) for it in numbers}


class Python:
    """kafka-python's consumer, with what it has read."""

    def __init__(self, address: str, topics: list[str], group_id: str) -> None:
        self.consumer = kafka_python(address, topics, group_id, auto_commit_interval_ms=500)
        self.read: list[bytes] = []

    def poll(self, timeout_ms: int) -> None:
        for records in self.consumer.poll(timeout_ms=timeout_ms).values():
            self.read += [each.value for each in records]

    def assignment(self) -> set[Any]:
        return set(self.consumer.assignment())

    def close(self) -> None:
        self.consumer.close()


class Fleet:
    """Members that are polled by threads of their own."""

    def __init__(self, *members: Any) -> None:
        self.members = members
        self.failed: list[BaseException] = []
        self.owned = [0] * len(members)
        """Partitions of each, as it says itself: librdkafka must not be asked by another thread meanwhile."""
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=each) for each in enumerate(members)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int, member: Any) -> None:
        try:
            while not self._stopping.is_set():
                member.poll(timeout_ms=200)
                self.owned[number] = len(member.assignment())
        except BaseException as error:
            self.failed.append(error)
            raise

    def stop(self) -> None:
        """Stop polling, and have all leave."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        for member in self.members:
            member.close()

    @property
    def read(self) -> Counter[bytes]:
        return Counter(value for member in self.members for value in list(member.read))


def ledger(work: Work, *fleets: Fleet) -> dict[str, int]:
    """What became of the records: none may be lost, and how many were read again."""
    read = sum((fleet.read for fleet in fleets), Counter[bytes]())
    found = {
        "written": len(work.all),
        "lost": len(work.all - read.keys()),
        "repeated": read.total() - len(read),
    }
    print("ledger:", json.dumps(found))
    return found


def test_a_group_of_two_kinds_of_clients_moves_here_and_back_while_it_reads(stage: Stage) -> None:
    topic = group = stage.topic()
    work = Work(stage.running.broker, topic, PARTITIONS)
    commits = {"enable_auto_commit": True, "auto_commit_interval_ms": 500}
    fleet = Fleet(Librdkafka(stage.address, [topic], group, **commits), Python(stage.address, [topic], group))
    try:
        wait_for(lambda: fleet.owned == [PARTITIONS // 2] * 2)
        look = stage.move(group, "coordinator", "--dry-run", "--output", "json")
        assert look.returncode == 0, look.stderr
        assert {each["change"] for each in json.loads(look.stdout)} <= {"commit"}
        assert "of /127.0.0.1 is a member, and would leave." in look.stderr
        for to in ("coordinator", "brokers"):
            done = stage.move(group, to)
            assert done.returncode == 0, done.stderr
            assert f"Group '{group}' is at the {to}" in done.stdout
            expected = {"coordinator": 0, "brokers": 0, to: 2}
            wait_for(lambda expected=expected: stage.members(group) == expected)  # type: ignore[misc]
            now = work.written
            wait_for(lambda now=now: b"0-%d" % (now + 5) in fleet.read)  # type: ignore[misc]
        again = stage.move(group, "brokers")
        assert (again.returncode, again.stdout) == (0, f"Group '{group}' is at the brokers already.\n")
        work.close()
        wait_for(lambda: work.all <= fleet.read.keys())
    finally:
        work.close()
        fleet.stop()
    assert not fleet.failed
    assert ledger(work, fleet)["lost"] == 0


def test_a_straggler_at_the_broker_is_refused_and_a_member_that_stays_is_named(stage: Stage) -> None:
    topic = group = stage.topic()
    member = Fleet(Librdkafka(stage.running.broker, [topic], group))
    try:
        wait_for(lambda: member.owned == [PARTITIONS])
        refused = stage.move(group, "coordinator", "--members-timeout", "2")
        assert refused.returncode == 1
        assert "after 2 s it has members at the brokers (rdkafka of /127.0.0.1)" in refused.stderr
        stage.process.wait_until(lambda: f"group {group} is at the brokers" in " ".join(stage.process.said))
    finally:
        member.stop()
    with closing(KafkaConsumer(bootstrap_servers=stage.running.broker, group_id=group)) as tool:
        tool.assign([TopicPartition(topic, 0)])
        tool.seek(TopicPartition(topic, 0), 0)
        tool.commit()
    assert stage.move(group, "coordinator").returncode == 0
    with (
        closing(kafka_python(stage.running.broker, [topic], group)) as straggler,
        pytest.raises(InconsistentGroupProtocolError),
    ):
        wait_for(lambda: straggler.poll(timeout_ms=200) or straggler.assignment())
    assert stage.members(group) == {"coordinator": 0, "brokers": 0}


@pytest.mark.verify
def test_a_fleet_follows_a_command_that_is_killed_and_run_again_while_a_gateway_is_paused(
    running: Running, stage: Stage, tmp_path: Path
) -> None:
    """Members of four clients at two gateways; the ledger has what all of them have read."""
    topic = group = stage.topic(FLEET)
    try:
        go = [build_go(tmp_path), "franz-go"]
    except Missing:
        # More of the others take their places.
        go = []
    franzes = FRANZES if go else 0
    second = start(running, stage.sides)
    with ExitStack() as stack:
        stack.callback(second.kill)
        address = second.wait_for("clients find the gateway at ")
        work = stack.enter_context(closing(Work(running.broker, topic, FLEET, every_s=0.2)))
        commits = {"enable_auto_commit": True, "auto_commit_interval_ms": 500}
        where = [stage.address, address]
        fleet = Fleet(
            *(Librdkafka(where[it % 2], [topic], group, **commits) for it in range(FLEET // 2)),
            *(Python(where[it % 2], [topic], group) for it in range(FLEET - FLEET // 2 - JAVAS - franzes)),
        )
        stack.callback(fleet.stop)
        javas = [
            stack.enter_context(console_consumer(where[it % 2], topic, group, **JAVA)) for it in range(JAVAS)
        ]
        franz = [
            stack.enter_context(Foreign(tmp_path / f"franz{it}", [*go, where[it % 2], topic, group, "range"]))
            for it in range(franzes)
        ]
        told: list[bytes] = []
        readers = [threading.Thread(target=_read, args=(each, told)) for each in javas]
        for reader in readers:
            reader.start()
        wait_for(lambda: stage.members(group) == {"coordinator": 0, "brokers": FLEET})
        for number, to in enumerate(("coordinator", "brokers", "coordinator")):
            paused = (stage.process, second)[number % 2]
            os.kill(paused.pid, signal.SIGSTOP)
            with subprocess.Popen(stage.command(group, to)) as command:
                time.sleep(random.uniform(1, 8))
                command.kill()
            os.kill(paused.pid, signal.SIGCONT)
            wait_for(lambda to=to: stage.move(group, to).returncode == 0)  # type: ignore[misc]
            expected = {"coordinator": 0, "brokers": 0, to: FLEET}
            wait_for(
                lambda expected=expected: stage.members(group) == expected,  # type: ignore[misc]
                said=lambda: (stage.members(group), fleet.failed, [each.poll() for each in javas]),
            )
        work.close()

        def read() -> Counter[bytes]:
            return fleet.read + Counter([*told, *chain.from_iterable(each.values for each in franz)])

        wait_for(lambda: work.all <= read().keys())
        found = {"written": len(work.all), "repeated": read().total() - len(read())}
        print("ledger:", json.dumps(found))
        for go_member in franz:
            go_member.leave()
        for java in javas:
            java.kill()
        for reader in readers:
            reader.join()
    assert not fleet.failed


@pytest.mark.verify
def test_twenty_groups_of_two_hundred_members_move_to_and_fro_under_load(
    running: Running, stage: Stage
) -> None:
    """Half of the groups are here, and half at the brokers. All change sides, four at a time, and again."""
    topic = stage.topic(GROUP_SIZE)
    groups = [f"{topic}-{number}" for number in range(GROUPS)]
    second = start(running, stage.sides)
    with ExitStack() as stack:
        stack.callback(second.kill)
        where = [stage.address, second.wait_for("clients find the gateway at ")]
        work = stack.enter_context(closing(Work(running.broker, topic, GROUP_SIZE, every_s=0.2)))
        commits = {"enable_auto_commit": True, "auto_commit_interval_ms": 500, "session_timeout_ms": 30_000}
        fleets = {}
        for group in groups:
            members = (Librdkafka(where[it % 2], [topic], group, **commits) for it in range(GROUP_SIZE))
            fleets[group] = Fleet(*members)
            stack.callback(fleets[group].stop)
        sides = dict.fromkeys(groups, "brokers")

        def settled(group: str) -> bool:
            expected = {"coordinator": 0, "brokers": 0, sides[group]: GROUP_SIZE}
            return fleets[group].owned == [1] * GROUP_SIZE and stage.members(group) == expected

        def change(group: str) -> None:
            to = "brokers" if sides[group] == "coordinator" else "coordinator"
            done = stage.move(group, to, "--members-timeout", "120", "--timeout", "60000")
            assert done.returncode == 0, done.stderr
            sides[group] = to

        pool = stack.enter_context(ThreadPoolExecutor(4))
        for moving in (groups[::2], groups, groups):
            for group in groups:
                wait_for(lambda group=group: settled(group))  # type: ignore[misc]
            list(pool.map(change, moving))
        for group in groups:
            wait_for(lambda group=group: settled(group))  # type: ignore[misc]
        work.close()
        for fleet in fleets.values():
            wait_for(lambda fleet=fleet: work.all <= fleet.read.keys())  # type: ignore[misc]
        assert [ledger(work, fleet)["lost"] for fleet in fleets.values()] == [0] * GROUPS
    assert not [fleet.failed for fleet in fleets.values() if fleet.failed]


def _read(java: subprocess.Popen[str], told: list[bytes]) -> None:
    assert java.stdout is not None
    told.extend(line.strip().encode() for line in java.stdout)
