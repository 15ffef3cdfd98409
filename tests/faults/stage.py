"""One run: a broker, the coordinator under its supervisor and the load, while faults are done to them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

from kafka.admin import KafkaAdminClient

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import ROOT
from tests.faults.faults import Fault
from tests.faults.history import History, collect, is_read, read_topic
from tests.faults.notes import read_notes
from tests.faults.supervisor import Supervisor
from tests.faults.tables import TableWriter
from tests.faults.told import expected_tables
from tests.gateway.cluster import another_of, hiding_listeners
from tests.gateway.ports import ports_in_a_row
from tests.own_clock import BrokerWithOwnClock
from tests.patience import PATIENCE_S, wait_for
from tests.storage.hdfs import Hdfs
from tests.storage.s3 import ObjectStore

__all__ = ["LoadSize", "Stage", "StageError"]

_DATA_TOPIC = "data"
_DATA_PARTITIONS = 4
_LOOK_EVERY_S = 0.3


class StageError(AssertionError):
    """The run did not come to its end: this is as bad as what the checker finds."""


class LoadSize(NamedTuple):
    """`processes` with `members` each, in `groups` of each kind; `options` are passed on to the load."""

    processes: int = 3
    members: int = 20
    groups: int = 8
    options: Sequence[str] = ()


class Stage:
    """Everything of a run; see `faults.Scene` for what faults are done to. `say` hears what happens.

    `kills_of_history`: how often the job that writes the history is killed; without it if None.
    `store`: where checkpoint and history are, if not on the disk. The environment has to say how to reach it.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        master: str,
        size: LoadSize,
        say: Callable[[str], None],
        *,
        kills_of_history: int | None = 3,
        store: ObjectStore | Hdfs | None = None,
    ) -> None:
        self._say = say
        self._directory = directory
        self._seed = seed
        self._size = size
        self._kills_of_history = kills_of_history
        self.done: Counter[str] = Counter()
        self._resources = ExitStack()
        self._load: list[subprocess.Popen[bytes]] = []
        port = ports_in_a_row(3)
        self.broker = BrokerWithOwnClock(
            directory / "1", port=port, heap_mb=384, overrides=hiding_listeners(port)
        )
        self._master = master
        self.store = store

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.broker)
            admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap_servers)
            try:
                admin.create_topics(
                    {_DATA_TOPIC: {"num_partitions": _DATA_PARTITIONS, "replication_factor": 1}}
                )
            finally:
                admin.close()
            self.supervisor = stack.enter_context(
                Supervisor(
                    *(self.broker.bootstrap_servers, self._directory, "faults", self._master, self._say),
                    *(self.store.options("coordinator") if self.store else ()),
                )
            )
            self.supervisor.job.wait_for("the coordinator is running")
            stack.callback(self._end_load, signal.SIGKILL)
            for number in range(self._size.processes):
                self._start_load(number)
            self._resources = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @cached_property
    def follower(self) -> EmbeddedBroker:
        """A broker that no client knows; it starts when it is wanted."""
        return self._resources.enter_context(another_of(self._directory, self.broker, 2))

    @property
    def request_topic(self) -> str:
        return self.supervisor.job.topics["requests"]

    @property
    def response_topic(self) -> str:
        return self.supervisor.job.topics["responses"]

    @property
    def load_pids(self) -> list[int]:
        return [process.pid for process in self._load]

    def _notes(self) -> list[Path]:
        return [self._directory / f"notes-{number}" for number in range(self._size.processes)]

    def _start_load(self, number: int) -> None:
        topics, size = self.supervisor.job.topics, self._size
        settings = {
            "bootstrap-servers": self.broker.bootstrap_servers,
            "requests": topics["requests"],
            "responses": topics["responses"],
            "data": _DATA_TOPIC,
            "notes": self._notes()[number],
            "seed": self._seed,
            "number": number,
            "members": size.members,
            "groups": size.groups,
        }
        with (self._directory / f"load-{number}").open("wb") as log:
            self._load.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", "tests.faults.load"),
                        *(word for name, value in settings.items() for word in (f"--{name}", str(value))),
                        *size.options,
                    ],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

    def _end_load(self, number: signal.Signals) -> None:
        for process in self._load:
            process.send_signal(number)
        for process in self._load:
            process.wait(PATIENCE_S)

    # -- what happens ------------------------------------------------------------------------------------

    def wait_for_answers(self, number: int) -> None:
        """Wait until the members have heard so many more answers."""
        before = self._answers()
        self.wait_until(lambda: self._answers() >= before + number)

    def _answers(self) -> int:
        return sum(path.read_bytes().count(b'"note":"heard"') for path in self._notes() if path.exists())

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until it is so; what the coordinator has said tells why it never was."""
        try:
            wait_for(condition, said=lambda: "\n".join(self.supervisor.job.said[-20:]))
        except AssertionError as error:
            raise StageError(str(error)) from None

    def play(self, faults: Iterable[Fault]) -> None:
        """Do the faults one after the other."""
        for fault in faults:
            time.sleep(fault.after_s)
            self._say(f"{fault.kind} {fault.seconds:.1f} s, {fault.choice:.2f}")
            fault.do(self)

    def finish(self) -> History:
        """Let everybody leave, let the coordinator read everything and stop, and collect what there is."""
        self._end_load(signal.SIGTERM)
        settings = self.supervisor.job.settings
        requests = read_topic(settings.bootstrap_servers, settings.topics_requests)
        self.wait_until(lambda: is_read(settings, requests))
        code = self.supervisor.stop()
        if code != 0:
            raise StageError(
                f"the coordinator did not stop in order, but with {code}: {self.supervisor.job.said}"
            )
        if self._kills_of_history is None:
            history = collect(settings, requests, read_notes(self._notes()), {})
            # What the job would write, so that the rules hold for this.
            history.tables = expected_tables(history)
            return history
        writer = TableWriter(
            *(settings, self._directory, self._seed, self._say),
            path=f"{self.store.root}/tables" if self.store else "",
            options=self.store.settings() if self.store else {},
        )
        writer.kill(self._kills_of_history)
        self.done["SIGKILL history"] += writer.kills
        return collect(settings, requests, read_notes(self._notes()), writer.finish())
