"""Kafka's own console consumer as a worker: in Java, unmodified, with the gateway as its bootstrap server.

It prints each record, and between them Kafka's client logs what the group tells it. So its output has both in
the order in which they happened, and keeps them when it is killed. It commits only what it has printed.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from group_coordinator.demo.processes import Tail
from group_coordinator.demo.store import OrderStore, Owner
from group_coordinator.deploy.jars import fetch
from group_coordinator.deploy.java import find_java

_HEARTBEAT_MS = 1_000
_AUTO_COMMIT_INTERVAL_MS = 1_000
_LOG4J = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.group.name = org.apache.kafka.clients.consumer.internals
logger.group.level = info
"""
_RECORD = re.compile(r"Partition:(\d+)\tOffset:(\d+)\t(\{.*\})")
_LOGGED = "[Consumer clientId="
_SYNCED = re.compile(
    r"\[.*\] Successfully synced group in generation Generation\{generationId=(\d+), memberId='([^']*)'"
)
_MOVED = re.compile(
    r"\[.*?\] (Adding newly|Revoke previously|Lost previously) assigned partitions:? \[(.*)\]"
)
_KINDS = {"Adding": "assigned", "Revoke": "revoked", "Lost": "lost"}


def console_command(
    directory: Path, *, name: str, group: str, topic: str, bootstrap_servers: str, session_timeout_ms: int
) -> list[str]:
    """Return the command of `kafka-console-consumer.sh`, with a file in `directory` that makes it log."""
    log4j = directory / "console.properties"
    log4j.write_text(_LOG4J, encoding="utf-8")
    properties = {
        "client.id": name,
        "group.protocol": "classic",
        "session.timeout.ms": session_timeout_ms,
        "heartbeat.interval.ms": _HEARTBEAT_MS,
        "auto.commit.interval.ms": _AUTO_COMMIT_INTERVAL_MS,
    }
    return [
        *(str(find_java()), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
        *(f"-Dlog4j2.configurationFile={log4j}", "-cp", os.pathsep.join(map(str, fetch("broker", "tools")))),
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap_servers, "--topic", topic, "--group", group, "--from-beginning"),
        *(word for key, it in properties.items() for word in ("--command-property", f"{key}={it}")),
        *("--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true"),
    ]


class ConsoleOutput:
    """Stores what the console consumer `name` has written to `log`: its results, and what it was told."""

    def __init__(self, name: str, log: Path, store: OrderStore) -> None:
        self._tail = Tail(log)
        self._store = store
        self._owner = Owner(name, "", -1)
        self._begun = ""
        """The beginning of a record, in the midst of which another thread has logged something."""

    def take(self) -> None:
        """Store what is new, in its order."""
        orders: list[tuple[int, int, int]] = []
        for text in self._tail.lines():
            record, logged, told = text.partition(_LOGGED)
            self._begun += record
            if logged:
                line = logged + told
            else:
                line, self._begun = self._begun, ""
            if found := _RECORD.fullmatch(line):
                orders.append((json.loads(found[3])["order"], int(found[1]), int(found[2])))
                continue
            # Orders above this line are of the generation before it.
            self._add(orders)
            orders = []
            if found := _SYNCED.match(line):
                self._owner = Owner(self._owner.worker, found[2], int(found[1]))
            elif found := _MOVED.fullmatch(line):
                kind = _KINDS[found[1].partition(" ")[0]]
                partitions = {int(each.rpartition("-")[2]) for each in found[2].split(", ")}
                self._store.record(kind, self._owner, partitions)
        self._add(orders)

    def _add(self, orders: list[tuple[int, int, int]]) -> None:
        if orders:
            self._store.add(self._owner, orders)
