"""Coordinators of the same topics and checkpoint, as processes that are killed, upgraded and stand by."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Self

from benchmarks.load import Load
from benchmarks.members import LONG_MS
from group_coordinator.coordinator_state.topics import REQUESTS, RESPONSES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from benchmarks.stage import Stage

RUNNING = "the coordinator is running"
WARM = "standing by is warm"
TAKES_OVER = "has ended: taking over"
_PATIENCE_S = 120
_LOOK_S = 0.02


def coordinators(stage: Stage, settings: Mapping[str, str]) -> Callable[..., Coordinator]:
    """What starts coordinators of the same topics and checkpoint, with more options if given."""
    given = {
        "bootstrap.servers": stage.broker.bootstrap_servers,
        "create.topics": "true",
        "checkpoint": str(stage.directory / "checkpoint"),
        "metrics.port": "0",
        "log.level": "warning",
        "group.initial.rebalance.delay.ms": "0",
        "group.max.session.timeout.ms": str(LONG_MS),
        **settings,
    }
    load = Load(stage.broker.bootstrap_servers, REQUESTS, RESPONSES, 0)
    numbers = count(1)
    options = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]

    def make(*more: str) -> Coordinator:
        return Coordinator([*options, *more], stage.directory / f"coordinator{next(numbers)}.log", load)

    return make


class Coordinator:
    """A coordinator, in a session of its own, until the context ends."""

    def __init__(self, options: list[str], log: Path, load: Load) -> None:
        self.load = load
        self.said: list[tuple[float, str]] = []
        """Its lines, each with its time."""
        self._log = log
        self._process = subprocess.Popen(
            [sys.executable, "-m", "group_coordinator", "run", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._log.open("w") as log:
            for line in self._process.stdout:
                self.said.append((time.monotonic(), line))
                log.write(line)
                log.flush()

    def kill(self) -> None:
        """Kill all its processes."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to stop, as a supervisor does."""
        self._process.terminate()

    def await_line(self, words: str) -> float:
        """Wait until it has said a line with these words; return when it said the first."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            if (said := [at for at, line in self.said if words in line]) != []:
                return said[0]
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"it does not say {words!r}:\n{self._log.read_text()}")
            time.sleep(_LOOK_S)
