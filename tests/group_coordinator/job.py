"""`group-coordinator run` as a process of its own, for the tests that start, stop and kill it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
DEADLINE_S = 90
COMMAND = [sys.executable, "-m", "group_coordinator", "run"]


class Job:
    """`run` as a process of its own, with a session of its own: so its children can be told from others."""

    def __init__(self, bootstrap_servers: str, directory: Path, name: str, *arguments: str) -> None:
        self.checkpoint = directory / "checkpoint"
        self.topics = {
            topic: f"{name}.{topic}"
            for topic in ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
        }
        settings = {f"topics.{topic}": it for topic, it in self.topics.items()} | {
            "clock.interval.ms": "200",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "spark.sql.shuffle.partitions": "2",
        }
        self._log = directory / "stderr"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *COMMAND,
                    *("--bootstrap-servers", bootstrap_servers, "--checkpoint", str(self.checkpoint)),
                    *("--create-topics", "--metrics-port", "0"),
                    *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
                    *arguments,
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    @property
    def said(self) -> list[str]:
        return self._log.read_text(errors="replace").splitlines()

    def wait_for(self, line: str) -> str:
        """Wait until it has said a line that begins so, and return the rest of that line."""

        def found() -> list[str]:
            return [it.removeprefix(line) for it in self.said if it.startswith(line)]

        wait_for(lambda: bool(found()) or self._process.poll() is not None)
        assert found(), self.said
        return found()[0]

    def metrics(self) -> dict[tuple[str, ...], float]:
        """What /metrics says, by sample name and label values."""
        url = self.wait_for("metrics are at ")
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }

    def interrupt(self) -> None:
        """As Ctrl-C does it: to all processes of the terminal."""
        os.killpg(self._process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """As supervisors do it: to the main process."""
        self._process.terminate()

    def exit_code(self) -> int:
        self._process.communicate(timeout=DEADLINE_S)
        return self._process.returncode

    def processes(self) -> list[str]:
        """Command lines of all processes of its session."""
        done = subprocess.run(
            ["ps", "-o", "args=", "-s", str(self._process.pid)], capture_output=True, text=True, check=False
        )
        return done.stdout.splitlines()

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        with self._process:
            pass  # waits for it, and closes its output

    def batches(self, log: str) -> set[str]:
        return {file.name for file in (self.checkpoint / log).iterdir() if file.name.isdigit()}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.05)
