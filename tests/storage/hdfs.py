"""HDFS on this machine: Hadoop's own MiniDFSCluster, a name node and a data node in one process."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pyspark

from group_coordinator.deploy.broker import _free_port
from group_coordinator.deploy.jars import fetch
from group_coordinator.deploy.java import find_java
from tests.patience import PATIENCE_S, wait_for
from tests.storage.files import WEBHDFS

__all__ = ["Hdfs"]

# Spark has Hadoop's client, which the servers need as well.
_SPARKS = Path(pyspark.__file__).parent / "jars" / "*"


class Hdfs:
    """A file system that is empty, until the context ends; its files are in `directory`.

    `environment`: the variables by which a process reaches it. `root`: a folder in it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = _free_port(), _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.root = f"hdfs://127.0.0.1:{self._ports[0]}/tests"
        self._web = f"http://127.0.0.1:{self._ports[1]}"
        self.environment = {WEBHDFS: self._web}

    def settings(self) -> Mapping[str, str]:
        """Spark's settings, with which a job reaches it."""
        return {}

    def options(self, name: str) -> list[str]:
        """Words of a command line for a checkpoint of that name."""
        return ["--checkpoint", f"{self.root}/{name}"]

    def __enter__(self) -> Self:
        self._start("-format")
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it anew, with the files that it had."""
        self._start()

    def _start(self, *options: str) -> None:
        self.kill()
        name_node, web = map(str, self._ports)
        (jar,) = fetch("hdfs")
        log = self._directory.with_name(f"{self._directory.name}.log")
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [
                    *(
                        find_java(),
                        "-Xmx384m",
                        "-XX:TieredStopAtLevel=1",
                        "-cp",
                        f"{jar}{os.pathsep}{_SPARKS}",
                    ),
                    *("org.apache.hadoop.test.MiniDFSClusterManager", "-datanodes", "1", *options),
                    *("-nnport", name_node, "-httpport", web),
                    *("-D", f"hdfs.minidfs.basedir={self._directory}", "-D", "dfs.replication=1"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        try:
            wait_for(self._is_ready, said=lambda: log.read_text(errors="replace"))
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill it (SIGKILL), if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        """Whether files can be written. Before, the name node waits for the data node and its blocks."""
        assert self._process is not None
        assert self._process.poll() is None, "it has ended"
        url = f"{self._web}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                beans = json.load(answer)["beans"]
        except OSError:
            return False
        return [(it["FSState"], it["NumLiveDataNodes"]) for it in beans] == [("Operational", 1)]
