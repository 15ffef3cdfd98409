"""Clients that know nothing of this project, as tests start and ask them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import confluent_kafka
from kafka import KafkaConsumer

from group_coordinator.deploy.jars import fetch
from group_coordinator.deploy.java import find_java
from tests.patience import PATIENCE_S, wait_for

TOOLS = "org.apache.kafka.tools"


def kafka_python(address: str, topics: list[str], group_id: str, **config: Any) -> KafkaConsumer:
    """kafka-python's consumer, which knows its topics before it joins.

    A leader that learns of partitions after its first join joins again. kafka-python 3.0.12 never ends that
    join if `poll` ends between the answers to JoinGroup and SyncGroup. It is so at brokers as well.
    """
    given = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500}
    consumer = KafkaConsumer(
        *topics,
        bootstrap_servers=address,
        group_id=group_id,
        auto_offset_reset="earliest",
        **(given | config),
    )
    for topic in topics:
        wait_for(partial(consumer.partitions_for_topic, topic))
    return consumer


def polling(*consumers: Any) -> Callable[[Callable[[], object]], None]:
    """Wait until something is so, while these consumers poll."""

    def until(condition: Callable[[], object]) -> None:
        def polled() -> object:
            for each in consumers:
                each.poll(timeout_ms=50)
            return condition()

        wait_for(polled)

    return until


def java_command(main: str, *arguments: str, jars: tuple[str, ...]) -> list[str]:
    """A command with a program in Java, from these sections of the locked jars."""
    classpath = os.pathsep.join(map(str, fetch(*jars)))
    flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath]
    return [str(find_java()), *flags, main, *arguments]


def java(main: str, *arguments: str) -> list[str]:
    """A command with a program of Kafka's own, from the package of its tools."""
    return java_command(f"{TOOLS}.{main}", *arguments, jars=("broker", "tools"))


def run(main: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run such a program until it ends."""
    return subprocess.run(
        java(main, *arguments), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def groups_tool(address: str, *arguments: str) -> str:
    """What Kafka's own kafka-consumer-groups.sh says."""
    done = run("consumer.group.ConsumerGroupCommand", "--bootstrap-server", address, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def console_consumer(
    address: str, topic: str, group_id: str, **properties: str
) -> Iterator[subprocess.Popen[str]]:
    """Kafka's console consumer, killed at the end."""
    given = {
        "group.protocol": "classic",
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "500",
    } | properties
    command = java(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", address, "--topic", topic, "--group", group_id, "--from-beginning"),
        *(word for name, it in given.items() for word in ("--command-property", f"{name}={it}")),
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


class Program:
    """A program that runs beside a test, and what it has said, in the file `log`. As a context it is killed.

    `again`: what it says comes after what another run has said. `environment`: what it has besides ours.
    """

    def __init__(
        self,
        log: Path,
        command: list[str],
        *,
        again: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        with log.open("ab" if again else "wb") as said:
            self._process = subprocess.Popen(
                command,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=os.environ | dict(environment or {}),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def said(self) -> str:
        """All that it has said so far in whole lines."""
        return self._log.read_text(errors="replace").rpartition("\n")[0]

    def terminate(self) -> int:
        """End it in order, and return its exit code."""
        self._process.terminate()
        return self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        """Kill it, in which it leaves nothing."""
        self._process.kill()
        self._process.wait()


class VerifiableConsumer(Program):
    """Kafka's own consumer for tests, which says as JSON what happens to it."""

    PROTOCOL = ("--group-protocol", "classic", "--session-timeout", "3000")

    def __init__(self, directory: Path, address: str, topic: str, group_id: str, *arguments: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "consumer.properties"
        config.write_text("heartbeat.interval.ms=500\n" if "classic" in self.PROTOCOL else "")
        command = java(
            "VerifiableConsumer",
            *("--bootstrap-server", address, "--topic", topic, "--group-id", group_id),
            *(*self.PROTOCOL, "--command-config", str(config)),
            *arguments,
        )
        super().__init__(directory / "said", command)

    def poll(self, timeout_ms: int) -> None:
        """It polls by itself."""

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it has said so far."""
        return [json.loads(line) for line in self.said.splitlines() if line.startswith("{")]

    def assignment(self) -> set[int]:
        """The partitions that it has."""
        owned: set[int] = set()
        for event in self.events:
            partitions = {each["partition"] for each in event.get("partitions", []) if "partition" in each}
            if event["name"] == "partitions_assigned":
                owned |= partitions
            elif event["name"] in ("partitions_revoked", "partitions_lost"):
                owned -= partitions
        return owned

    def close(self) -> None:
        """End it in order, in which it leaves the group."""
        self.terminate()
        assert self.events[-1]["name"] == "shutdown_complete", self.said


class Librdkafka:
    """librdkafka's consumer, with kafka-python's names; `moves` has each call of its listener.

    `config`: settings with `_` for `.`; None takes one away that it has here.
    """

    def __init__(self, address: str, topics: list[str], group_id: str, **config: Any) -> None:
        given = {
            "bootstrap.servers": address,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 500,
        }
        self.moves: list[tuple[str, set[int]]] = []
        self.read: list[bytes] = []
        given |= {name.replace("_", "."): it for name, it in config.items()}
        self.consumer = confluent_kafka.Consumer({name: it for name, it in given.items() if it is not None})
        self.consumer.subscribe(
            topics,
            on_assign=self._moved("assigned"),
            on_revoke=self._moved("revoked"),
            on_lost=self._moved("lost"),
        )

    def _moved(self, kind: str) -> Callable[[Any, list[confluent_kafka.TopicPartition]], None]:
        return lambda _, partitions: self.moves.append((kind, {each.partition for each in partitions}))

    def poll(self, timeout_ms: int) -> None:
        for record in self.consumer.consume(100, timeout_ms / 1000):
            assert record.error() is None, record.error()
            value = record.value()
            assert value is not None
            self.read.append(value)

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def is_at_end(self) -> bool:
        """Whether it has read all of what it has now. Right after it was assigned it has not."""
        return all(
            each.offset == self.consumer.get_watermark_offsets(each, PATIENCE_S)[1]
            for each in self.consumer.position(self.consumer.assignment())
        )

    def committed(self) -> dict[int, int]:
        return {each.partition: each.offset for each in self.consumer.committed(self.consumer.assignment())}

    def close(self) -> None:
        self.consumer.close()
