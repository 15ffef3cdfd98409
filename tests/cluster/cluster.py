"""A Spark standalone cluster on this machine, and a coordinator that is submitted to it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import pyspark

from group_coordinator.deploy.submit import main_program, spark_options
from tests.patience import wait_for

SPARK_HOME = Path(pyspark.__file__).parent
# Not the one of the tests: it has all that is packed installed, and would hide what the package lacks.
BARE_PYTHON = Path(sys.executable).resolve()


class Program:
    """A process with a session of its own, by which its children are told from others."""

    def __init__(self, directory: Path, name: str, *command: str | Path, **environment: str) -> None:
        self._log = directory / f"{name}.log"
        inherited = {
            name: it for name, it in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON", "SPARK"))
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                list(map(str, command)),
                cwd=directory,
                env=inherited
                | {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
                # Six Java programs that live for a minute: the optimising compiler would not pay.
                | {"SPARK_DAEMON_MEMORY": "256m", "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
                | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def said(self) -> list[str]:
        return self._log.read_text(errors="replace").splitlines()

    def wait_for(self, pattern: str) -> str:
        """Wait until it has said a line with `pattern` in it, and return the match, or its first group."""

        def found() -> list[re.Match[str]]:
            return [match for line in self.said if (match := re.search(pattern, line))]

        wait_for(lambda: bool(found()) or not self.is_running)
        assert found(), self.said
        return found()[0][found()[0].lastindex or 0]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def pids(self) -> list[int]:
        """Processes of its session that are not dead."""
        done = subprocess.run(
            ["ps", "-o", "pid=,stat=", "-s", str(self._process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        pairs = (line.split() for line in done.stdout.splitlines())
        return [int(pid) for pid, state in pairs if not state.startswith("Z")]

    def python_pid(self) -> int:
        """The Python process of the driver, which spark-submit may have started."""
        (pid,) = (pid for pid in self.pids if _is_driver(_words(pid)))
        return pid

    def exit_code(self, timeout_s: float) -> int:
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL to all of its session, the ones that are started meanwhile included."""
        while pids := self.pids:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self._process.wait()


class Cluster:
    """A master and two workers of one core each; every worker keeps its files apart."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._programs: list[Program] = []

    def __enter__(self) -> Self:
        spark_class = SPARK_HOME / "bin" / "spark-class"
        daemon = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = self._start("master", spark_class, "org.apache.spark.deploy.master.Master", *daemon)
        try:
            self.url = master.wait_for(r"Starting Spark master at (spark://\S+)")
            size = ("--cores", "1", "--memory", "1g")
            self.workers = [
                self._start(
                    name,
                    *(spark_class, "org.apache.spark.deploy.worker.Worker"),
                    *(*daemon, *size, "--work-dir", self._directory / f"{name}-work", self.url),
                    SPARK_LOCAL_DIRS=str(self._directory / name),
                )
                for name in ("worker-0", "worker-1")
            ]
            for worker in self.workers:
                worker.wait_for("Successfully registered with master")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for program in reversed(self._programs):
            program.kill()

    def submit(self, packed: Path, *arguments: str) -> Program:
        """`spark-submit` with both workers' cores, as an operator would do it from the packed folder."""
        return self._start(
            "submit",
            *(SPARK_HOME / "bin" / "spark-submit", "--master", self.url, *spark_options(packed)),
            *("--driver-memory", "1g", "--executor-memory", "700m", "--total-executor-cores", "2"),
            *("--conf", "spark.driver.host=127.0.0.1", "--conf", f"spark.pyspark.python={BARE_PYTHON}"),
            # The first batch decides where state partitions are: it waits for both executors.
            *("--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"),
            *(main_program(packed), *arguments),
        )

    def run(self, packed: Path, *arguments: str) -> Program:
        """The same without `spark-submit`, from an environment in which the project is installed."""
        spark = {
            "spark.master": self.url,
            "spark.archives": f"{packed / 'group-coordinator.zip'}#group-coordinator",
            "spark.executorEnv.PYTHONPATH": "group-coordinator",
            "spark.pyspark.python": BARE_PYTHON,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "700m",
            "spark.cores.max": 2,
            "spark.scheduler.minRegisteredResourcesRatio": 1.0,
        }
        settings = (word for name, value in spark.items() for word in ("--set", f"{name}={value}"))
        return self._start("run", sys.executable, "-m", "group_coordinator", *arguments, *settings)

    def state_partitions(self, worker: int) -> set[int]:
        """Partitions of the state that the executors of this worker have had open, by RocksDB's folders."""
        folders = (self._directory / f"worker-{worker}").glob("**/StateStoreId(*")
        return {int(match[1]) for each in folders if (match := re.search(r"partId=(\d+)", each.name))}

    def libraries(self, worker: int) -> set[Path]:
        """Files that are mapped into the memory of this worker's processes."""
        maps = "\n".join(_read(pid, "maps") for pid in self.workers[worker].pids)
        return {Path(path) for path in re.findall(r" (/\S+)$", maps, re.MULTILINE)}

    def _start(self, name: str, *command: str | Path, **environment: str) -> Program:
        self._programs.append(Program(self._directory, name, *command, **environment))
        return self._programs[-1]


def _is_driver(words: list[str]) -> bool:
    """By the words of a command line."""
    return "java" not in words[0] and ("main.py" in words or "group_coordinator" in words)


def _words(pid: int) -> list[str]:
    return [Path(word).name for word in _read(pid, "cmdline").split("\0")]


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return ""
