"""A load with three deaths, a slow joiner and a crash of the coordinator, while the history is written.

Every step waits until all members know of the rebalance before: so each cause has a generation of its own.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from kafka.admin import KafkaAdminClient

from tests.commands.job import ROOT, Job
from tests.faults.history import History, collect, is_read, read_topic
from tests.faults.notes import AnyNote, GaveUp, Owned, Sent, now_ms, read_notes
from tests.faults.tables import TableWriter
from tests.patience import wait_for

__all__ = ["PARTITIONS", "SLOW_MS", "Crew", "Played", "play"]

PARTITIONS = 6
SLOW_MS = 2_000
_RUNNING = "the coordinator is running"
_numbers = itertools.count(1)


class Played(NamedTuple):
    """What is left of it. Times are in ms.

    `died_ms`: client id -> when it was killed. `away_ms`: when the coordinator was killed, and when the next
    one was there. `writer` has written the tables, which `history` has, too.
    """

    group_id: str
    topic: str
    history: History
    writer: TableWriter
    died_ms: dict[str, int]
    away_ms: tuple[int, int]


class Crew:
    """The members of a group, each a process, by client id."""

    def __init__(self, job: Job, directory: Path, group_id: str, topic: str) -> None:
        self._settings = job.settings
        self._directory = directory
        self._group_id = group_id
        self._topic = topic
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self.died_ms: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members.values():
            member.kill()
            member.wait()

    def notes(self) -> list[AnyNote]:
        return read_notes(list(self._directory.glob("notes-*")))

    def start(self, client_id: str, slow_ms: int = 0) -> None:
        options = {
            "bootstrap-servers": self._settings.bootstrap_servers,
            "requests": self._settings.topics_requests,
            "responses": self._settings.topics_responses,
            "group": self._group_id,
            "topic": self._topic,
            "client-id": client_id,
            "notes": self._directory / f"notes-{client_id}",
            "slow-ms": slow_ms,
        }
        with (self._directory / f"member-{client_id}").open("wb") as log:
            self._members[client_id] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.history.worker"),
                    *(word for name, value in options.items() for word in (f"--{name}", str(value))),
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def die(self, client_id: str) -> None:
        """As programs do that have no time to say goodbye."""
        member = self._members.pop(client_id)
        self.died_ms[client_id] = now_ms()
        member.kill()
        member.wait()

    def leave(self, client_id: str) -> None:
        member = self._members.pop(client_id)
        member.send_signal(signal.SIGTERM)
        assert member.wait(60) == 0, self._said(client_id)

    def wait_until_shared(self) -> None:
        """Wait until the members own, in one generation, all partitions, and know it."""

        def shared() -> bool:
            for client_id, member in self._members.items():
                assert member.poll() is None, self._said(client_id)
            newest: dict[str, AnyNote] = {
                it.client_id: it for it in self.notes() if isinstance(it, Owned | GaveUp)
            }
            owned = [newest.get(client_id) for client_id in self._members]
            known = [it for it in owned if isinstance(it, Owned)]
            return (
                len(known) == len(owned)
                and len({it.generation_id for it in known}) == 1
                and sum(len(it.units) for it in known) == PARTITIONS
            )

        wait_for(shared)

    def wait_until_it_beats(self, client_id: str) -> None:
        """Wait until it has sent something from now on."""
        since = now_ms()
        wait_for(
            lambda: any(
                isinstance(it, Sent) and it.client_id == client_id and it.at_ms > since for it in self.notes()
            )
        )

    def _said(self, client_id: str) -> str:
        return (self._directory / f"member-{client_id}").read_text()


def play(
    bootstrap_servers: str,
    directory: Path,
    *,
    seed: int,
    kills: int,
    max_events: int,
    say: Callable[[str], None],
) -> Played:
    """Play it, while the job that writes the history, `max_events` in a batch, is killed `kills` times."""
    name = f"crew{next(_numbers)}"
    group_id, topic = f"{name}-billing", f"{name}-orders"
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        admin.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    finally:
        admin.close()
    with ExitStack() as stack:
        job = Job(bootstrap_servers, directory, name)
        stack.callback(job.kill)
        job.wait_for(_RUNNING)
        writer = TableWriter(job.settings, directory, seed, say, max_events=max_events)
        thread = stack.enter_context(ThreadPoolExecutor(1, "writer"))
        stack.callback(writer.stop)
        killing = thread.submit(writer.kill, kills)
        crew = stack.enter_context(Crew(job, directory, group_id, topic))
        for client_id in ("a", "b", "c", "d"):
            crew.start(client_id)
            crew.wait_until_shared()
        crew.start("slow", SLOW_MS)
        crew.wait_until_shared()

        crew.die("a")
        crew.wait_until_shared()
        killed_ms = now_ms()
        job.kill()
        say("SIGKILL coordinator")
        crew.wait_until_it_beats("b")
        crew.die("b")
        job = Job(bootstrap_servers, directory, name)
        stack.callback(job.kill)
        job.wait_for(_RUNNING)
        away_ms = killed_ms, now_ms()
        crew.wait_until_shared()
        crew.die("c")
        crew.wait_until_shared()
        crew.leave("d")
        crew.wait_until_shared()
        crew.leave("slow")

        requests = read_topic(bootstrap_servers, job.settings.topics_requests)
        wait_for(lambda: is_read(job.settings, requests))
        job.terminate()
        assert job.exit_code() == 0, job.said
        say("all have left, and the coordinator has stopped")
        killing.result()
        history = collect(job.settings, requests, crew.notes(), writer.finish())
    return Played(group_id, topic, history, writer, crew.died_ms, away_ms)
