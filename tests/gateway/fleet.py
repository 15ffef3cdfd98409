"""Many unmodified consumers in one process: librdkafka's, which does all by itself but poll and commit.

python -m tests.gateway.fleet ADDRESS TOPIC FIRST GROUPS SIZE

There are GROUPS groups, from number FIRST on, of SIZE members each, which commit once a second what they have
read. It says `all have committed` whenever all of them have done so since it last said that, and each move of
partitions and each error that a member is told. At SIGTERM it says as JSON each offset whose commit was
acknowledged, and for how many seconds the longest commit waited for that. It closes no member: so nothing of
what happens after that counts. It ends as well when the process that has started it has gone.

It runs only while nothing else wants the processor. Elsewhere clients have machines of their own. Here they
have five threads for each member, which would keep the gateway from the processor when all connect at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

AUTOGROUP, LOWEST = Path("/proc/self/autogroup"), 19
EVERY_S = 1.0
STRATEGIES = ("range", "cooperative-sticky")


class Member:
    """One consumer."""

    def __init__(self, address: str, topic: str, group: int) -> None:
        self.group, self.acknowledged = group, list[tuple[int, int]]()
        self.longest_commit_s = 0.0
        self._committing_since_s: float | None = None
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": name_of(topic, group),
                "partition.assignment.strategy": STRATEGIES[group % len(STRATEGIES)],
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "on_commit": self._committed,
                "error_cb": self._failed,
                # It reads what there is at once, and then does not ask for more.
                "queued.min.messages": 1,
            }
        )
        self._consumer.subscribe(
            [topic],
            on_assign=self._moved("assigned"),
            on_revoke=self._moved("revoked"),
            on_lost=self._moved("lost"),
        )

    def _moved(self, kind: str) -> Callable[[Any, list[TopicPartition]], None]:
        return lambda _, partitions: say(f"{kind} {len(partitions)} in group {self.group}")

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        assert self._committing_since_s is not None
        waited_s = time.monotonic() - self._committing_since_s
        self.longest_commit_s = max(self.longest_commit_s, waited_s)
        self._committing_since_s = None
        for each in partitions:
            if reason := error or each.error:
                self._failed(reason)
            else:
                self.acknowledged.append((each.partition, each.offset))

    def _failed(self, error: KafkaError) -> None:
        say(f"error of group {self.group}: {error}")

    def step(self) -> None:
        """Read a record, and commit it if the commit before has been answered."""
        record: Message | None = self._consumer.poll(0)
        if record is None:
            return
        if (error := record.error()) is not None:
            self._failed(error)
        elif self._committing_since_s is None:
            self._committing_since_s = time.monotonic()
            self._consumer.commit(record, asynchronous=True)


def name_of(topic: str, group: int) -> str:
    """The id of a group."""
    return f"{topic}-{group}"


def give_way() -> None:
    """Leave the processor to all other programs.

    Some kernels weigh sessions against each other (`sched_autogroup_enabled`). There the weight of a process
    only counts within its session, and the session has one of its own.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.setsid()
    with suppress(FileNotFoundError):
        AUTOGROUP.write_text(str(LOWEST), encoding="ascii")


def say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    address, topic, *numbers = sys.argv[1:]
    give_way()
    first, groups, size = map(int, numbers)
    parent = os.getppid()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    members = [Member(address, topic, first + number % groups) for number in range(groups * size)]
    counted = [0] * len(members)
    while not stopping and os.getppid() == parent:
        began_s = time.monotonic()
        for each in members:
            each.step()
        counts = [len(each.acknowledged) for each in members]
        if all(count > before for count, before in zip(counts, counted, strict=True)):
            counted = counts
            say("all have committed")
        time.sleep(max(0, EVERY_S - (time.monotonic() - began_s)))
    told = {
        "acknowledged": [[each.group, each.acknowledged] for each in members],
        "longest_commit_s": max(each.longest_commit_s for each in members),
    }
    say(json.dumps(told))
    os._exit(0)


if __name__ == "__main__":
    main()
