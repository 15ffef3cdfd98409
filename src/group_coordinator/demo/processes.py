"""Child processes that are ended with everything they have started, and that never outlive this one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

_KILL_TIMEOUT_S = 10.0
_POLL_S = 0.02


class Child:
    """A process in a session and process group of its own, which writes to a log file.

    Ctrl-C in the terminal does not reach it, and it is killed when this process ends, however that ends.
    `environment` is added to this process's own.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self.ending = False
        """Whether it was told to end: then an end is no failure."""
        self._gone = False
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | (environment or {}),
            )
        # Its standard input closes when this process ends, even by SIGKILL.
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; kill -s KILL -- "-$1"', "sh", str(self.pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its group and session."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that killed it."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it to end."""
        self.ending = True
        self._process.terminate()

    def kill(self) -> None:
        """Kill it and everything in its session, and return when all of that is gone.

        Call it also soon after the process has ended by itself, while no other process has its id.
        """
        if self._gone:
            return
        self.ending = self._gone = True
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        # Spark's Python workers are in a group of their own, but in the same session.
        deadline = time.monotonic() + _KILL_TIMEOUT_S
        while (left := _session(self.pid)) and time.monotonic() < deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_S)
        self._watcher.kill()
        self._watcher.communicate()


class Tail:
    """The lines of a file that grows; those that are there `at` the start are left out."""

    def __init__(self, path: Path, at: int = 0) -> None:
        self._path = path
        self._at = at

    def lines(self) -> list[str]:
        """Return the whole lines that are new since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._at += len(whole + newline)
        return whole.decode(errors="replace").split("\n") if newline else []


def end_all(children: Iterable[Child], timeout_s: float) -> None:
    """End all `children` and what they have started: asked first, killed after `timeout_s`."""
    running = list(children)
    for child in running:
        child.terminate()  # without effect on what has ended
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and any(child.exit_code is None for child in running):
        time.sleep(_POLL_S)
    for child in running:
        child.kill()


def end_of(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log file; nothing if there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _session(session_id: int) -> list[int]:
    """Process ids in a session, without those that have ended; empty where there is no /proc."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # "pid (name) state parent group session ...", and the name may hold anything.
            state, _, _, session = entry.read_text(errors="replace").rpartition(")")[2].split()[:4]
            if int(session) == session_id and state != "Z":
                pids.append(int(entry.parent.name))
    return pids
