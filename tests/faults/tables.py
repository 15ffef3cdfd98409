"""The history's tables: written by a process that is killed now and then, and then looked at."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deltalake import DeltaTable

from group_coordinator.history.tables import EVENTS, TABLES
from group_coordinator.streaming.settings import CoordinatorSettings
from tests.commands.job import ROOT
from tests.faults.supervisor import signal_group
from tests.storage.files import files_of

__all__ = ["Rows", "TableWriter"]

Rows = dict[str, list[dict[str, Any]]]
"""By table."""

_DEADLINE_S = 600
_STARTED = "the history is written to"
# A batch writes each table once, and the first of a job looks for old files, which is two commits in each.
_COMMITS = 4 * (1 + len(TABLES))
_COMMIT_S = 0.5
# With no batch in so long there is nothing to write.
_IDLE_S = 15


class TableWriter:
    """Writes the history of a coordinator under `directory`; while it is killed, `max_events` in a batch.

    `path`: the tables, if not there; `options`: settings with which Spark reaches them.

    `say` hears of each kill. `kills` counts them, `kills_in_batch` those of which Spark's log of the query
    says that a batch had begun and was not finished.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        directory: Path,
        seed: int,
        say: Callable[[str], None],
        *,
        # So that there are several batches, with something between them, too.
        max_events: int = 500,
        path: str = "",
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.path = path or str(directory / "tables")
        self._files = files_of(self.path)
        self._directory = directory
        self._settings = settings
        self._options = options
        self._rng = random.Random(f"{seed} tables")
        self._say = say
        self._max_events = max_events
        self._stopping = threading.Event()
        self.kills = 0
        self.kills_in_batch = 0

    def kill(self, times: int) -> None:
        """Start the job and kill it at work, so often, or until `stop`. Events may come all the while."""
        for _ in range(times):
            log = self._directory / f"write-history-{self.kills}"
            with self._job(log, "--set", f"history.max.events={self._max_events}") as job:
                self._wait_for(job, lambda log=log: _STARTED in log.read_text(errors="replace"))
                self._wait_for_commits(job, self._commits() + self._rng.randrange(_COMMITS))
                if self._stopping.wait(self._rng.uniform(0, _COMMIT_S)):
                    return
                assert job.poll() is None, log.read_text()
            in_batch = self._is_in_batch()
            self.kills += 1
            self.kills_in_batch += in_batch
            where = "in the middle of a batch" if in_batch else "between batches"
            self._say(f"SIGKILL history, after {self._commits()} commits, {where}")

    def stop(self) -> None:
        """Kill it no more: `kill` returns."""
        self._stopping.set()

    def finish(self) -> Rows:
        """Let it write what there is; all rows."""
        log = self._directory / "write-history"
        with self._job(log, "--once") as job:
            job.wait(_DEADLINE_S)
        assert job.returncode == 0, log.read_text()
        place = self.path.replace("s3a://", "s3://")
        return {
            table.name: DeltaTable(f"{place}/{table.name}").to_pyarrow_table().to_pylist()
            for table in (EVENTS, *TABLES)
        }

    @contextmanager
    def _job(self, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """The job in a session of its own; killed in the end."""
        given = {
            "bootstrap.servers": self._settings.bootstrap_servers,
            "topics.events": self._settings.topics_events,
            "history.path": self.path,
            "history.interval.ms": 200,
            "history.metrics.port": 0,
            "spark.driver.memory": "768m",
            **self._options,
        }
        command = [sys.executable, "-m", "group_coordinator", "write-history", *options]
        with (
            log.open("wb") as file,
            subprocess.Popen(
                [*command, *(word for name, value in given.items() for word in ("--set", f"{name}={value}"))],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as job,
        ):
            try:
                yield job
            finally:
                signal_group(job.pid, signal.SIGKILL)

    def _commits(self) -> int:
        """How often all tables together have been written to."""
        logs = (self._files.names(f"{table.name}/_delta_log") for table in (EVENTS, *TABLES))
        return sum(name.endswith(".json") for log in logs for name in log)

    def _wait_for_commits(self, job: subprocess.Popen[bytes], number: int) -> None:
        """Wait for so many commits, unless there is nothing to write."""
        idle_since = time.monotonic()

        def is_over() -> bool:
            nonlocal idle_since
            if self._is_in_batch():
                idle_since = time.monotonic()
            return self._commits() >= number or time.monotonic() - idle_since > _IDLE_S

        self._wait_for(job, is_over)

    def _wait_for(self, job: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not condition() and job.poll() is None and not self._stopping.is_set():
            assert time.monotonic() < deadline, f"write-history {job.pid}: not within {_DEADLINE_S} s"
            time.sleep(0.05)

    def _is_in_batch(self) -> bool:
        """Whether a batch has begun and not ended, by Spark's own logs of the query."""
        begun, ended = (
            {name for name in self._files.names(f"checkpoint/{log}") if name.isdigit()}
            for log in ("offsets", "commits")
        )
        return bool(begun - ended)
