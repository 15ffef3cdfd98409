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
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from tests.gateway.clients import Program, java_command, run
from tests.gateway.conftest import Running
from tests.patience import PATIENCE_S, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.verify]

TOPIC = "connect-lines"
GROUP = "connect-workers"
FILE = "org.apache.kafka.connect.file.FileStream"
TERMINATED = 128 + signal.SIGTERM
TASKS = {"source-0": 1, "source-1": 1, "sink": 4}


class Worker(Program):
    """A worker of Kafka Connect. Its connectors read and write files."""

    def __init__(self, directory: Path, address: str, protocol: str) -> None:
        directory.mkdir()
        settings = {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "connect.protocol": protocol,
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
            **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": 1 for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.partitions": 1 for kind in ("offset", "status")},
        }
        config = directory / "worker.properties"
        config.write_text("".join(f"{name}={it}\n" for name, it in settings.items()))
        command = java_command(
            "org.apache.kafka.connect.cli.ConnectDistributed", str(config), jars=("connect",)
        )
        super().__init__(directory, [command[0], "-Dlog4j2.level=INFO", *command[1:]])

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


def test_workers_share_tasks_and_one_takes_over(running: Running, tmp_path: Path) -> None:
    sources = [tmp_path / f"source-{number}" for number in range(2)]
    sink = tmp_path / "sink"
    written: set[str] = set()

    def write(count: int) -> None:
        lines = {f"line-{number}" for number in range(len(written), len(written) + count)}
        for number, line in enumerate(sorted(lines)):
            with sources[number % 2].open("a") as file:
                file.write(f"{line}\n")
        written.update(lines)

    def is_copied() -> bool:
        return sink.exists() and set(sink.read_text().split()) == written

    def state() -> tuple[str, int, str]:
        """The group's state, members and strategy."""
        (told,) = running.describe(GROUP, "--state")
        return told["state"], told["members"], told["assignment_strategy"]

    with closing(KafkaAdminClient(bootstrap_servers=running.gateway)) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=4, replication_factor=1)])
    with ExitStack() as stack:

        def start(name: str, protocol: str) -> Worker:
            return stack.enter_context(Worker(tmp_path / name, running.gateway, protocol))

        first, second = (start(name, "sessioned") for name in ("first", "second"))

        def until(condition: Callable[[], object]) -> None:
            wait_for(condition, said=lambda: "\n".join(each.said[-4000:] for each in (first, second)))

        def workers_are(*workers: Worker) -> None:
            until(lambda: second.workers() == {each.address for each in workers})

        configs: dict[str, dict[str, object]] = {
            "sink": {
                "connector.class": f"{FILE}SinkConnector",
                "topics": TOPIC,
                "file": str(sink),
                "tasks.max": 4,
            }
        }
        for file in sources:
            source = {"connector.class": f"{FILE}SourceConnector", "topic": TOPIC, "file": str(file)}
            configs[file.name] = source
        for name, config in configs.items():
            until(partial(first.ask, f"connectors/{name}/config", **config))
        workers_are(first, second)
        write(40)
        until(is_copied)
        until(lambda: state() == ("Stable", 2, "sessioned"))
        told = run("GroupsCommand", "--bootstrap-server", running.gateway, "--list").stdout
        listed = dict(re.findall(r"^(connect-\S+) +Classic +(\S+) *$", told, re.MULTILINE))
        assert listed == {"connect-sink": "consumer", GROUP: "connect"}

        first.kill()
        write(40)
        workers_are(second)
        until(is_copied)

        # As in an upgrade: the group takes what all workers can.
        third = start("third", "compatible")
        workers_are(second, third)
        until(lambda: state() == ("Stable", 2, "compatible"))
        write(40)
        until(is_copied)
        until(lambda: [each["lag"] for each in running.describe("connect-sink")] == [0] * 4)

        # Workers that are ended in order leave.
        assert third.terminate() == TERMINATED
        workers_are(second)
        assert second.terminate() == TERMINATED
        until(lambda: state()[0] == "Empty")
