"""Prometheus itself: the one on the PATH, else that of Debian's package, unpacked into the cache.

Nothing is installed, so nobody has to be root: apt gets lists and a cache of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

from group_coordinator.deploy.broker import _free_port
from group_coordinator.deploy.jars import cache_dir
from tests.patience import PATIENCE_S, wait_for

_DOWNLOAD_S = 240
_ADVICE = (
    "Install Prometheus (Debian and Ubuntu: apt-get install prometheus), so that promtool and prometheus "
    "are on the PATH; or look at the network (http_proxy is honoured) and run the tests again"
)
_APT = """
Dir::State::lists "{folder}/lists";
Dir::Cache "{folder}/cache";
Acquire::Languages "none";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
APT::Sandbox::User "root";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


class NoPrometheusError(Exception):
    """It cannot be had; the message says why and what to do."""


def program(name: str) -> Path:
    """`promtool` or `prometheus`; raises `NoPrometheusError`."""
    if found := shutil.which(name):
        return Path(found)
    return _unpacked(cache_dir().with_name("prometheus")) / "usr" / "bin" / name


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


def _unpacked(target: Path) -> Path:
    """The folder with the package's files."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # On the same disk and renamed when it is whole, as other processes may do the same.
    with tempfile.TemporaryDirectory(prefix=".prometheus-", dir=target.parent) as name:
        folder = Path(name)
        package = _download(folder)
        _run("dpkg", "-x", package, folder / "whole", cwd=folder)
        try:
            (folder / "whole").rename(target)
        except OSError:
            if not target.exists():
                raise
    return target


def _download(folder: Path) -> Path:
    configuration = folder / "apt.conf"
    configuration.write_text(_APT.format(folder=folder))
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    # One of the machine's other registries may be away; whether the lists are enough shows below.
    updated = _run("apt-get", "-c", configuration, "update", cwd=folder, check=False)
    fetched = _run("apt-get", "-c", configuration, "download", "prometheus", cwd=folder, check=False)
    packages = list(folder.glob("prometheus_*.deb"))
    if not packages:
        said = f"{updated}\n{fetched}".strip().splitlines()
        # The first says what is the matter, the last one what comes of it.
        problems = [line for line in said if line.startswith(("E:", "W:"))] or said
        told = " ".join(dict.fromkeys(problems[:1] + problems[-1:]))
        raise NoPrometheusError(f"apt-get cannot fetch prometheus: {told}. {_ADVICE}")
    return packages[0]


def _run(*command: str | Path, cwd: Path, check: bool = True) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_DOWNLOAD_S,
            check=check,
        )
    except FileNotFoundError:
        raise NoPrometheusError(f"there is no {command[0]} to fetch promtool with. {_ADVICE}") from None
    except subprocess.TimeoutExpired:
        raise NoPrometheusError(f"{command[0]} took longer than {_DOWNLOAD_S} s. {_ADVICE}") from None
    except subprocess.CalledProcessError as error:
        raise NoPrometheusError(f"{command[0]} failed: {error.stdout.strip()}. {_ADVICE}") from None
    return done.stdout


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

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and values of a vector."""
        data = self.get("query", query=expression)
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]
