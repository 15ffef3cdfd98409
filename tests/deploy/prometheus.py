"""Prometheus itself: the one on the PATH, else that of Debian's package, unpacked into the cache."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import yaml

from group_coordinator.deploy.broker import _free_port
from tests.commands.job import Process
from tests.debian import unpacked
from tests.patience import PATIENCE_S, wait_for

_SHIPPED = Path(__file__).parents[2] / "deploy" / "prometheus"
CONFIGURATION, RULES = _SHIPPED / "prometheus.yml", _SHIPPED / "alerts.yml"
_ADVICE = (
    "Install Prometheus (Debian and Ubuntu: apt-get install prometheus), so that promtool and prometheus "
    "are on the PATH; or look at the network (http_proxy is honoured) and run the tests again"
)


def program(name: str) -> Path:
    """`promtool` or `prometheus`; raises `NoPackageError`."""
    if found := shutil.which(name):
        return Path(found)
    return unpacked("prometheus", ["prometheus"], _ADVICE) / "usr" / "bin" / name


def promtool(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool, with `text` as its input, and return what came of it; both outputs are in `stdout`."""
    return subprocess.run(
        [program("promtool"), *arguments],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def configured(directory: Path, ports: Mapping[str, str], interval: str | None = None) -> Path:
    """Write the shipped configuration and rules into `directory`, with these jobs and their ports here.

    `interval`: between two looks at targets and rules, if not as shipped.
    """
    shutil.copy(RULES, directory)
    configuration = yaml.safe_load(CONFIGURATION.read_text())
    shipped = {each["job_name"]: each for each in configuration["scrape_configs"]}
    configuration["scrape_configs"] = [
        shipped[job] | {"static_configs": [{"targets": [f"127.0.0.1:{port}"]}]} for job, port in ports.items()
    ]
    if interval is not None:
        configuration["global"] = dict.fromkeys(configuration["global"], interval)
    path = directory / CONFIGURATION.name
    path.write_text(yaml.safe_dump(configuration))
    return path


@contextmanager
def watched(job: Process, directory: Path) -> Iterator[Prometheus]:
    """Have the shipped rules look at a coordinator, from before anything happens to it."""
    directory.mkdir()
    configuration = configured(directory, {"group-coordinator": job.metrics_port()}, interval="500ms")
    with Prometheus(directory, configuration) as prometheus:
        wait_for(lambda: prometheus.query('group_coordinator_events_total{event="clock_corrected"}'))
        yield prometheus


class Prometheus:
    """A server that scrapes as `configuration` says, while the context is open; data are in `directory`."""

    def __init__(self, directory: Path, configuration: Path) -> None:
        port = _free_port()
        self._url = f"http://127.0.0.1:{port}"
        self._log = directory / "prometheus.log"
        self._command = [
            str(program("prometheus")),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._log.parent, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            wait_for(self._is_ready, said=self._log.read_text)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=PATIENCE_S):
                return True
        except OSError:
            return False

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API; of one with an error an AssertionError, with its text."""
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["error"]) from None

    def firing(self) -> dict[str, tuple[str | None, str]]:
        """The group and the summary of each alert that fires, and does not only wait for its time."""
        return {
            alert["labels"]["alertname"]: (alert["labels"].get("group"), alert["annotations"]["summary"])
            for alert in self.get("alerts")["alerts"]
            if alert["state"] == "firing"
        }

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and values of a vector."""
        data = self.get("query", query=expression)
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]
