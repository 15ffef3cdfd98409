"""`run` and `write-history` as processes of their own, for the tests that start, stop and kill them."""

from __future__ import annotations

import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from group_coordinator.streaming.settings import CoordinatorSettings
from tests.patience import LOOK_EVERY_S, PATIENCE_S, wait_for
from tests.rooms import ROOT

_numbers = itertools.count(1)
COMMAND = [sys.executable, "-m", "group_coordinator"]


class Process:
    """A command of the program, with a session of its own: so its children can be told from others.

    `within`: a command that is to run it, as its last words. `program`: of another environment than this one.
    """

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        within: Sequence[str] = (),
        program: Sequence[str] = COMMAND,
    ) -> None:
        self._log = directory / f"stderr{next(_numbers)}"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*within, *program, *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    @property
    def said(self) -> list[str]:
        return self._log.read_text(errors="replace").splitlines()

    @property
    def pid(self) -> int:
        """The main process."""
        return self._process.pid

    def wait_for(self, line: str) -> str:
        """Wait until it has said a line that begins so, and return the rest of that line."""

        def found() -> list[str]:
            return [it.removeprefix(line) for it in self.said if it.startswith(line)]

        self.wait_until(found)
        return found()[0]

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until it is so, while the process runs; what it has said tells why it never was."""

        def runs() -> None:
            assert self._process.poll() is None or condition(), self.said
            time.sleep(LOOK_EVERY_S)

        wait_for(condition, meanwhile=runs, said=lambda: self.said)

    def error(self) -> str:
        """Wait until it has ended, by an error, and return what it has said of that.

        Spark's JVM may have something to say after that, while it ends.
        """
        assert self.exit_code() == 1, self.said
        (error,) = [it for it in self.said if it.startswith("error: ")]
        return error.removeprefix("error: ")

    def metrics_port(self) -> str:
        """The port of /metrics and of the probes."""
        return self.wait_for("metrics are at http://localhost:").removesuffix("/metrics")

    def metrics(self) -> dict[tuple[str, ...], float]:
        """What /metrics says, by sample name and label values."""
        url = self.wait_for("metrics are at ")
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }

    def probe(self, name: str) -> tuple[int, str]:
        """Status and text of `healthz` or `readyz`."""
        url = self.wait_for("metrics are at ").replace("/metrics", f"/{name}")
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode().strip()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode().strip()

    def interrupt(self) -> None:
        """As Ctrl-C does it: to all processes of the terminal."""
        os.killpg(self._process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """As supervisors do it: to the main process."""
        self._process.terminate()

    def terminate_all(self) -> None:
        """As other supervisors do it: to all processes of the service."""
        os.killpg(self._process.pid, signal.SIGTERM)

    def exit_code(self) -> int:
        self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode

    def pause(self) -> None:
        """Stop all its processes where they are, until `resume` or `kill`."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let its processes go on."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def processes(self) -> list[str]:
        """Command lines of all processes of its session."""
        done = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-s", str(self._process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.splitlines()

    def java(self) -> int:
        """The process id of its JVM; in a cluster that of the driver."""
        (pid,) = self._javas("--parent")
        return pid

    def executors(self) -> list[int]:
        """The process ids of the JVMs that a cluster has besides."""
        return [pid for pid in self._javas("--session") if pid != self.java()]

    def _javas(self, of: str) -> list[int]:
        pids = subprocess.run(
            ["pgrep", of, str(self._process.pid), "java"], capture_output=True, text=True, check=True
        )
        return [int(pid) for pid in pids.stdout.split()]

    def kill_java(self) -> None:
        """Kill the JVM alone, as a machine short of memory does."""
        os.kill(self.java(), signal.SIGKILL)

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        with self._process:
            pass  # waits for it, and closes its output


class Job(Process):
    """`group-coordinator run`."""

    def __init__(
        self,
        bootstrap_servers: str,
        directory: Path,
        name: str,
        *arguments: str,
        within: Sequence[str] = (),
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self.checkpoint = directory / "checkpoint"
        self.topics = {
            topic: f"{name}.{topic}"
            for topic in ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
        }
        settings = {f"topics.{topic}": it for topic, it in self.topics.items()} | {
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
        }
        super().__init__(
            directory,
            *("run", "--bootstrap-server", bootstrap_servers, "--checkpoint", str(self.checkpoint)),
            *("--create-topics", "--metrics-port", "0"),
            *set_all(settings),
            *arguments,
            within=within,
        )

    @property
    def settings(self) -> CoordinatorSettings:
        """What it was started with."""
        words: Any = self._process.args
        given = dict(it.split("=", 1) for option, it in pairwise(words) if option == "--set")
        # Of several the command takes the last one.
        *_, checkpoint = (it for option, it in pairwise(words) if option == "--checkpoint")
        named = {"bootstrap.servers": self._bootstrap_servers, "checkpoint": checkpoint}
        return CoordinatorSettings.load(None, {}, given | named)

    def batches(self, log: str) -> set[str]:
        return {file.name for file in (self.checkpoint / log).iterdir() if file.name.isdigit()}


class HistoryJob(Process):
    """`group-coordinator write-history` of a topic, into `directory`."""

    def __init__(self, bootstrap_servers: str, directory: Path, topic: str, *arguments: str) -> None:
        settings = {
            "topics.events": topic,
            "history.interval.ms": "500",
            "history.retention.days": "7",
            "spark.sql.shuffle.partitions": "1",
            "spark.driver.memory": "768m",
        }
        super().__init__(
            directory,
            *("write-history", "--bootstrap-server", bootstrap_servers),
            *("--history-path", str(directory / "history"), "--metrics-port", "0"),
            *set_all(settings),
            *arguments,
        )


class ObserveJob(Process):
    """`group-coordinator observe`, into topics of this name, with its checkpoint in `directory`."""

    def __init__(self, bootstrap_servers: str, directory: Path, name: str, *arguments: str) -> None:
        self.checkpoint = directory / "observed"
        self.topics = {topic: f"{name}.{topic}" for topic in ("groups", "offsets", "events")}
        settings = {f"brokers.topics.{topic}": it for topic, it in self.topics.items()}
        super().__init__(
            directory,
            *("observe", "--bootstrap-server", bootstrap_servers, "--checkpoint", str(self.checkpoint)),
            *("--create-topics", "--metrics-port", "0"),
            *set_all(settings | {"spark.driver.memory": "768m"}),
            *arguments,
        )


def gated_python(directory: Path) -> tuple[Path, Path]:
    """A Python for Spark's workers that begins when a file is there; both paths."""
    python, gate = directory / "python", directory / "gate"
    python.write_text(
        f"#!/bin/sh\nwhile ! [ -e {shlex.quote(str(gate))} ]; do sleep 0.05; done\n"
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o755)
    return python, gate


def set_all(settings: Mapping[str, str]) -> list[str]:
    return [word for name, it in settings.items() for word in ("--set", f"{name}={it}")]
