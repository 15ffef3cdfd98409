"""A gateway in a process of its own, in front of a stream and a broker."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streams import Stream

FOUND = "clients find the gateway at "
"""What a gateway says before its address."""
_PATIENCE_S = 60
_LOOK_S = 0.05


def interpreter_of(checkout: Path) -> str:
    """The interpreter of another checkout with a .venv, which runs its own code."""
    return f"{checkout.absolute()}/.venv/bin/python"


def command(bootstrap_servers: str, *settings: str, interpreter: str = sys.executable) -> list[str]:
    """The command of a gateway at any free ports. `settings`: as NAME=VALUE."""
    words = [interpreter, "-m", "group_coordinator", "gateway", "--bootstrap-server", bootstrap_servers]
    words += ["--listen", "127.0.0.1:0", "--advertised-host", "localhost", "--metrics-port", "-1"]
    return words + [part for each in settings for part in ("--set", each)]


class Gateway:
    """A gateway that asks `stream`, while the context is open. It logs to a file in `directory`.

    `checkout`: another one than this, whose gateway it is.
    """

    def __init__(
        self, bootstrap_servers: str, stream: Stream, directory: Path, checkout: Path | None = None
    ) -> None:
        given = stream.topic_settings | {"gateway.max.connections": 15_000}
        words = [f"{name}={value}" for name, value in given.items()]
        interpreter = sys.executable if checkout is None else interpreter_of(checkout)
        self._command = command(bootstrap_servers, *words, interpreter=interpreter)
        self._cwd = checkout
        self._file = directory / ("gateway.log" if checkout is None else "gateway-beside.log")

    def __enter__(self) -> Self:
        with self._file.open("w") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, cwd=self._cwd
            )
        self._known = psutil.Process(self._process.pid)
        deadline = time.monotonic() + _PATIENCE_S
        while not (found := [each for each in self._said() if each.startswith(FOUND)]):
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.__exit__()
                raise RuntimeError(f"the gateway is not up: {self._said()}")
            time.sleep(_LOOK_S)
        self.address = found[0].removeprefix(FOUND)
        """Where its clients begin."""
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def cpu_seconds(self) -> float:
        """Its CPU time so far."""
        times = self._known.cpu_times()
        return times.user + times.system

    def _said(self) -> list[str]:
        return self._file.read_text().splitlines()
