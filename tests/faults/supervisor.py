"""The coordinator under a supervisor, as it would be in production: started again whenever it has ended."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import pyspark

from group_coordinator.deploy.jars import fetch
from tests.commands.job import Job

__all__ = ["Process", "Supervisor", "signal_process"]

_LOOK_EVERY_S = 0.2
_GRACE_S = 10
_SETTINGS = (
    # So that a backlog takes several batches, and a flood is more than one may tell.
    "max.batch.records=4000",
    "max.read.bytes=1000000",
)


class Process(NamedTuple):
    """A process of the coordinator. `kind`: python (the driver's), jvm (same), executor or worker."""

    pid: int
    kind: str


class Supervisor:
    """Runs the coordinator on its topics and its checkpoint, again and again, while the context is open.

    `say` is told why it has ended, each time. `options`: more words of its command line.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        directory: Path,
        name: str,
        master: str,
        say: Callable[[str], None],
        *options: str,
    ) -> None:
        self._say = say
        self._where = (bootstrap_servers, directory, name)
        settings = [*_SETTINGS, *_settings(master)]
        self._settings = [word for setting in settings for word in ("--set", setting)]
        self._settings += options
        self._job: Job | None = None
        self._applications: set[str] = set()
        self._stopping = threading.Event()
        self._not_before = 0.0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="supervisor")
        self.starts = 0
        self.orphans: Counter[str] = Counter()
        """Kinds of processes that had not ended by themselves some seconds after the main one."""

    def __enter__(self) -> Self:
        self._start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._clear()
        for application in self._applications:
            # A cluster in one process keeps its executors' files in Spark's own folder.
            shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)

    @property
    def job(self) -> Job:
        """The newest start."""
        assert self._job is not None
        return self._job

    @property
    def pid(self) -> int:
        return self.job._process.pid

    @property
    def is_running(self) -> bool:
        return self.job._process.poll() is None

    def stop(self) -> int:
        """Stop it in order; return its exit code."""
        self._stopping.set()
        self._thread.join()
        self.job.terminate()
        return self.job.exit_code()

    def stay_away(self, seconds: float) -> None:
        """Do not start it again for so long."""
        with self._lock:
            self._not_before = time.monotonic() + seconds

    def processes(self) -> list[Process]:
        """Its processes that are alive; each has a session of its own, so others are not among them."""
        done = subprocess.run(
            ["ps", "-ww", "-o", "pid=,stat=,comm=,args=", "-s", str(self.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = (line.split(maxsplit=3) for line in done.stdout.splitlines())
        return [
            Process(int(pid), kind)
            for pid, state, program, args in lines
            if not state.startswith("Z") and (kind := self._kind(int(pid), program, args))
        ]

    def _kind(self, pid: int, program: str, args: str) -> str:
        self._applications.update(re.findall(r"--app-id (\S+)", args))
        if pid == self.pid:
            return "python"
        if not program.startswith(("java", "python")) or "launcher.Main" in args:
            return ""  # what puts a command line together has the same words in its own
        marks = {"SparkSubmit": "jvm", "CoarseGrainedExecutorBackend": "executor", "pyspark.worker": "worker"}
        return next((kind for mark, kind in marks.items() if mark in args), "")

    def _start(self) -> None:
        self._job = Job(*self._where, *self._settings)
        self.starts += 1

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY_S):
            with self._lock:
                not_before = self._not_before
            if not self.is_running and time.monotonic() >= not_before:
                self._say(f"it has ended: {(self.job.said or [''])[-1]}")
                self._clear()
                self._start()

    def _clear(self) -> None:
        """Leave nothing of it behind, as supervisors do before they start a service anew."""
        deadline = time.monotonic() + _GRACE_S
        while (left := self.processes()) and not self.is_running and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        if not self.is_running:
            self.orphans.update(process.kind for process in left)
        for process in left:
            signal_process(process.pid, signal.SIGKILL)
        self.job.kill()


def _settings(master: str) -> list[str]:
    if master == "local":
        return []
    (jar,) = fetch("local")
    # Executors that are processes of their own, on this machine. They do not inherit the driver's class path.
    return [
        "spark.master=local-cluster[2,1,512]",
        "spark.executor.memory=512m",
        f"spark.executor.extraClassPath={jar}",
    ]


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send the signal to a process and all that it has started, if it is still there."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def signal_process(pid: int, number: signal.Signals) -> bool:
    """Whether the process was there to be sent the signal."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
