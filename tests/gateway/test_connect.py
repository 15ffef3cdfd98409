"""Kafka Connect's distributed workers, with the gateway as their bootstrap server."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.admin import NewTopic

from tests.gateway.clients import Program, java_command, run
from tests.gateway.conftest import Running
from tests.patience import PATIENCE_S, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.verify]

FILE = "org.apache.kafka.connect.file.FileStream"
TERMINATED = 128 + signal.SIGTERM
TASKS = {"source-0": 1, "source-1": 1, "sink": 4}


class Worker(Program):
    """A worker of Kafka Connect. Its connectors read and write files."""

    def __init__(self, directory: Path, address: str, group: str, protocol: str, exactly_once: str) -> None:
        directory.mkdir()
        settings = {
            "bootstrap.servers": address,
            "group.id": group,
            "connect.protocol": protocol,
            "exactly.once.source.support": exactly_once,
            "consumer.isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            # After that it no longer waits for a worker that is gone, and divides its tasks.
            "scheduled.rebalance.max.delay.ms": 1000,
            "offset.flush.interval.ms": 500,
            "listeners": "http://127.0.0.1:0",
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "producer.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "consumer.session.timeout.ms": 6000,
            "consumer.heartbeat.interval.ms": 500,
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": 1 for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.partitions": 1 for kind in ("offset", "status")},
        }
        config = directory / "worker.properties"
        config.write_text("".join(f"{name}={it}\n" for name, it in settings.items()))
        command = java_command(
            "org.apache.kafka.connect.cli.ConnectDistributed", str(config), jars=("connect",)
        )
        super().__init__(directory / "said", [command[0], "-Dlog4j2.level=INFO", *command[1:]])

    @property
    def address(self) -> str:
        """Where its REST is, and what others know it by: once it has said so."""
        (found,) = wait_for(
            lambda: re.findall(r"REST server listening at http://(.*)/,", self.said), said=lambda: self.said
        )
        return str(found)

    def ask(self, path: str, **config: object) -> Any:
        """Get what is at this path, or put a connector there; None if it cannot be had now."""
        request = urllib.request.Request(
            f"http://{self.address}/{path}",
            json.dumps(config).encode() if config else None,
            {"Content-Type": "application/json"},
            method="PUT" if config else "GET",
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)
        except HTTPError:  # while it starts, and while its group divides the tasks
            return None

    def places(self) -> dict[str, list[str]]:
        """The workers that run a connector's tasks, by connector, if all of them run."""
        told = self.ask("connectors?expand=status") or {}
        tasks = {name: it["status"]["tasks"] for name, it in told.items()}
        if {name: len(them) for name, them in tasks.items()} != TASKS:
            return {}
        if {each["state"] for them in tasks.values() for each in them} != {"RUNNING"}:
            return {}
        return {name: [each["worker_id"] for each in them] for name, them in tasks.items()}

    def workers(self) -> set[str]:
        return {each for them in self.places().values() for each in them}


class Files:
    """Two files that connectors read, and one to which another connector writes their lines."""

    def __init__(self, directory: Path) -> None:
        self._sources = [directory / f"source-{number}" for number in range(2)]
        self._sink = directory / "sink"
        self.written: set[str] = set()

    def connectors(self, topic: str, group: str) -> dict[str, dict[str, object]]:
        """The configurations of the connectors, by name; `group` is that of the one that writes."""
        sink: dict[str, object] = {
            "connector.class": f"{FILE}SinkConnector",
            "topics": topic,
            "consumer.override.group.id": group,
            "file": str(self._sink),
            "tasks.max": TASKS["sink"],
        }
        sources: dict[str, dict[str, object]] = {
            file.name: {"connector.class": f"{FILE}SourceConnector", "topic": topic, "file": str(file)}
            for file in self._sources
        }
        return {"sink": sink, **sources}

    def write(self, count: int) -> None:
        for number in range(len(self.written), len(self.written) + count):
            with self._sources[number % 2].open("a") as file:
                file.write(f"line-{number}\n")
            self.written.add(f"line-{number}")

    def are_copied(self) -> bool:
        return self._sink.exists() and set(self._sink.read_text().split()) == self.written


def lines(address: str, topic: str, count: int) -> list[str]:
    """Read committed lines until so many different ones have come."""
    found: list[str] = []
    with closing(
        KafkaConsumer(
            topic,
            bootstrap_servers=address,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
    ) as consumer:

        def read() -> bool:
            for records in consumer.poll(timeout_ms=100).values():
                found.extend(it.value.decode() for it in records)
            return len(set(found)) == count

        wait_for(read, said=lambda: found)
    return found


@pytest.mark.parametrize(
    ("third_protocol", "exactly_once"), [("compatible", "disabled"), ("sessioned", "enabled")]
)
def test_workers_share_tasks_and_one_takes_over(
    running: Running, tmp_path: Path, third_protocol: str, exactly_once: str
) -> None:
    group = f"connect-{exactly_once}"
    topic, sinks = f"{group}-lines", f"{group}-sink"
    files = Files(tmp_path)

    def state() -> tuple[str, int, str]:
        """The group's state, members and strategy."""
        (told,) = running.describe(group, "--state")
        return told["state"], told["members"], told["assignment_strategy"]

    with closing(KafkaAdminClient(bootstrap_servers=running.gateway)) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=4, replication_factor=1)])
    with ExitStack() as stack:

        def start(name: str, protocol: str) -> Worker:
            return stack.enter_context(
                Worker(tmp_path / name, running.gateway, group, protocol, exactly_once)
            )

        first, second = (start(name, "sessioned") for name in ("first", "second"))

        def until(condition: Callable[[], object]) -> None:
            wait_for(condition, said=lambda: "\n".join(each.said[-4000:] for each in (first, second)))

        def workers_are(*workers: Worker) -> None:
            until(lambda: second.workers() == {each.address for each in workers})

        for name, config in files.connectors(topic, sinks).items():
            until(partial(first.ask, f"connectors/{name}/config", **config))
        workers_are(first, second)
        files.write(40)
        until(files.are_copied)
        until(lambda: state() == ("Stable", 2, "sessioned"))
        told = run("GroupsCommand", "--bootstrap-server", running.gateway, "--list").stdout
        listed = dict(re.findall(rf"^({group}\S*) +Classic +(\S+) *$", told, re.MULTILINE))
        assert listed == {sinks: "consumer", group: "connect"}

        first.kill()
        files.write(40)
        workers_are(second)
        until(files.are_copied)

        # The group takes the protocol that all workers have.
        third = start("third", third_protocol)
        workers_are(second, third)
        until(lambda: state() == ("Stable", 2, third_protocol))
        files.write(40)
        until(files.are_copied)
        if exactly_once == "enabled":
            assert sorted(lines(running.gateway, topic, len(files.written))) == sorted(files.written)
        else:  # where there are transactions, their ends are counted as lag
            until(lambda: [each["lag"] for each in running.describe(sinks)] == [0] * 4)

        # Workers that are ended in order leave.
        assert third.terminate() == TERMINATED
        workers_are(second)
        assert second.terminate() == TERMINATED
        until(lambda: state()[0] == "Empty")
