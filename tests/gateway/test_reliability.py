"""Two gateways behind one address under a load of unmodified members, while parts are killed or paused."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import Job
from tests.gateway.clients import Program
from tests.gateway.conftest import start_gateway
from tests.gateway.files import many_files
from tests.gateway.fleet import name_of
from tests.gateway.ports import ports_in_a_row
from tests.patience import wait_for
from tests.topics import Reader

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.alone, pytest.mark.timeout(1_800)]

TOPIC = "reliable"
GROUPS, SIZE, PROCESSES = 10, 50, 5
RECORDS = 60_000
"""So many that each member has one to commit in each second."""
IDLE_MS = 5_000
PAUSE_S = 90
BACKLOG = 1_024
"""Connections that may wait to be accepted, of which a broker has 50 by default: all members come at once."""
CLOSED = ("group_coordinator_gateway_connections_closed_total", "broker")
Commit = tuple[str, int, int]
"""Group, partition and offset."""
HOSTS = ["127.0.0.1", "127.0.0.2"]
BALANCER = "127.0.0.3"


class Balancer(threading.Thread):
    """Forwards each connection to one of the hosts that can be reached, at the same port, in turn."""

    def __init__(self, hosts: list[str], ports: list[int]) -> None:
        super().__init__(daemon=True)
        self._hosts, self._ports = hosts, ports
        self._ready = threading.Event()

    def __enter__(self) -> None:
        self.start()
        assert self._ready.wait(10)

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self.join()

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        servers = [
            await asyncio.start_server(partial(self._forward, port), BALANCER, port, backlog=BACKLOG)
            for port in self._ports
        ]
        self._ready.set()
        await self._stopping.wait()
        for each in servers:
            each.close()

    async def _forward(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._hosts.append(self._hosts.pop(0))
        for host in list(self._hosts):
            with suppress(OSError):
                upstream = await asyncio.open_connection(host, port)
                await asyncio.gather(_pump(reader, upstream[1]), _pump(upstream[0], writer))
                return
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


class Fleet(Program):
    """Some groups of unmodified members, in a process of their own."""

    def __init__(self, directory: Path, address: str, first: int, groups: int = GROUPS // PROCESSES) -> None:
        numbers = map(str, (first, groups, SIZE))
        command = [sys.executable, "-m", "tests.gateway.fleet", address, TOPIC, *numbers]
        super().__init__(directory / f"fleet-{first}", command)

    @property
    def moves(self) -> list[str]:
        """Each time that a member was told to take or give partitions."""
        return [line for line in self.said.splitlines() if " in group " in line]

    @property
    def errors(self) -> list[str]:
        """Each error that a member was told."""
        return [line for line in self.said.splitlines() if line.startswith("error of group")]

    @property
    def rounds(self) -> int:
        """How many times all of its members have committed."""
        return self.said.count("all have committed")

    def acknowledged(self) -> set[Commit]:
        """End it, in which its members do not leave; returns all commits that they have had acknowledged."""
        self.terminate()
        told = json.loads(self.said.splitlines()[-1])
        self.longest_commit_s = told["longest_commit_s"]
        return {(name_of(TOPIC, group), *each) for group, commits in told["acknowledged"] for each in commits}


def all_commit(fleets: list[Fleet]) -> None:
    """Wait until each member has committed from now on: the round before has begun before."""
    before = [each.rounds for each in fleets]
    wait_for(
        lambda: all(each.rounds >= begun + 2 for each, begun in zip(fleets, before, strict=True)),
        said=lambda: [each.said[-2_000:] for each in fleets],
    )


def formed(fleets: list[Fleet]) -> list[int]:
    """Wait until all members commit and none of them moves; returns how often any has moved."""

    def moves() -> list[int]:
        return [len(each.moves) for each in fleets]

    def is_quiet() -> bool:
        before = moves()
        all_commit(fleets)
        return moves() == before

    wait_for(is_quiet)
    return moves()


def commits(events: list[dict[str, Any]]) -> Iterator[Commit]:
    """The commits that the coordinator tells of."""
    for event in events:
        if event["event"] == "offsets_committed":
            for topic in event["topics"]:
                for each in topic["partitions"]:
                    yield event["group_id"], each["partition_index"], each["committed_offset"]


def fill_topic(broker: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=broker)) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=SIZE, replication_factor=1)])
    with closing(KafkaProducer(bootstrap_servers=broker)) as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, b"%d" % number, partition=number % SIZE)


def test_an_upgrade_with_a_standby_moves_no_partition_of_200_members(tmp_path: Path) -> None:
    """The successor stands by, and the one before is asked to stop. Nobody is told of that."""
    with ExitStack() as stack:
        kafka = stack.enter_context(
            EmbeddedBroker(tmp_path / "kafka", overrides={"socket.listen.backlog.size": str(BACKLOG)})
        )
        broker = kafka.bootstrap_servers
        fill_topic(broker)
        job = Job(broker, tmp_path, "upgraded")
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        gateway = start_gateway(tmp_path, broker, job.topics)
        stack.callback(gateway.kill)
        address = gateway.wait_for("clients find the gateway at ")
        events = stack.enter_context(Reader({"bootstrap_servers": broker}, job.topics["events"]))
        fleets = []
        for first in range(0, 4, 2):
            fleets.append(stack.enter_context(Fleet(tmp_path, address, first, groups=2)))
            formed(fleets)
        successor = Job(broker, tmp_path, "upgraded", "--standby")
        stack.callback(successor.kill)
        successor.wait_for("standing by is warm")
        moves = formed(fleets)
        errors = [each.errors for each in fleets]
        events.read_to_end()
        seen = len(events.records)

        job.terminate()
        successor.wait_for("the coordinator is running")
        assert job.exit_code() == 0
        all_commit(fleets)

        assert formed(fleets) == moves, "no member was told to give or take a partition"
        assert [each.errors for each in fleets] == errors, "no member noticed"
        acknowledged = set[Commit]().union(*(each.acknowledged() for each in fleets))
        events.read_to_end()
        told = [json.loads(each.value) for each in events.records]
        assert {each["event"] for each in told[seen:]} == {"offsets_committed"}
        assert len({(group, partition) for group, partition, _ in acknowledged}) == 4 * SIZE
        assert acknowledged <= set(commits(told)), "none was lost"
        print(f"The longest commit took {max(each.longest_commit_s for each in fleets):.1f} s")
        assert [it for it in successor.said if " WARN " in it] == [], "Spark took the state for behind"


def test_500_members_survive_killed_gateway_away_coordinator_and_restarted_broker(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(many_files())
        overrides = {
            "connections.max.idle.ms": str(IDLE_MS),
            "socket.listen.backlog.size": str(BACKLOG),
        }
        kafka = stack.enter_context(EmbeddedBroker(tmp_path / "kafka", overrides=overrides))
        broker = kafka.bootstrap_servers
        fill_topic(broker)
        job = Job(broker, tmp_path, "reliable")
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        port = ports_in_a_row(3)  # the node id of the broker is 1
        gateways = [
            start_gateway(tmp_path, broker, job.topics, listen=f"{host}:{port}", advertised=BALANCER)
            for host in HOSTS
        ]
        for each in gateways:
            stack.callback(each.kill)
            each.wait_for("clients find the gateway at ")
        stack.enter_context(Balancer([*HOSTS], [port, port + 2]))
        events = stack.enter_context(Reader({"bootstrap_servers": broker}, job.topics["events"]))
        fleets: list[Fleet] = []
        for first in range(0, GROUPS, GROUPS // PROCESSES):
            # One after the other: what is shown here is not what a machine does while 500 begin.
            fleets.append(stack.enter_context(Fleet(tmp_path, f"{BALANCER}:{port}", first)))
            formed(fleets)

        moves = formed(fleets)
        events.read_to_end()
        seen = len(events.records)
        # Not later: while 250 come at once, a broker without a core to itself may owe an answer for so long
        # that it calls a connection idle.
        counted = gateways[1].metrics()
        assert counted["group_coordinator_gateway_upstream_errors_total",] > 0, "idle ones were closed"
        assert counted.get(CLOSED, 0) == 0, "and no client for that"

        gateways[0].kill()
        all_commit(fleets)

        job.pause()
        paused_s = time.monotonic()
        wait_for(lambda: time.monotonic() - paused_s > PAUSE_S)
        job.resume()
        all_commit(fleets)

        job.kill()
        again = Job(broker, tmp_path, "reliable")
        stack.callback(again.kill)
        again.wait_for("the coordinator is running")
        all_commit(fleets)

        assert formed(fleets) == moves, "no member was told to give or take a partition"
        events.read_to_end()
        told = [json.loads(each.value) for each in events.records[seen:]]
        # Requests that it read while it caught up count as of when it was back.
        late = [each for each in told if each["event"] == "request_late"]
        assert all(each["at_ms"] < each["appended_ms"] for each in late)
        assert [each for each in told if each["event"] not in ("offsets_committed", "request_late")] == []

        # As at a broker itself: members are back, and lose their places if it was away for longer than they
        # may be silent, which they count themselves.
        kafka.stop()
        kafka.start()
        all_commit(fleets)

        acknowledged = set[Commit]().union(*(each.acknowledged() for each in fleets))
        events.read_to_end()
        told = [json.loads(each.value) for each in events.records]
        assert len({(group, partition) for group, partition, _ in acknowledged}) == GROUPS * SIZE
        assert acknowledged <= set(commits(told)), "none was lost"
