"""What the daemon's workers do around a task of pyspark's."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pyspark
import pytest
from pyarrow import RecordBatch
from pyspark import SparkConf
from pyspark.sql import Row

from group_coordinator.streaming import daemon, worker
from group_coordinator.streaming.warmth import loading
from tests.streaming.harness import Harness


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run one as the daemon does, with something in the place of pyspark's worker."""
    # This process goes on with others' tests.
    monkeypatch.setattr(worker, "install", lambda: None)
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr(daemon, "_frozen", set())

    def run(pysparks: Any) -> tuple[int, int]:
        monkeypatch.setattr(daemon, "_pysparks_worker", pysparks)
        with socket.socket() as connection:
            code = daemon._worker(connection, True)
        return code, len(frozen)

    return run


def test_a_task_that_spark_has_ended_is_no_error(task: Any) -> None:
    """Over a Unix socket the worker knows at once that nobody reads; its traceback would be on the screen."""

    def worker(_connection: socket.socket, _authenticated: bool) -> int:
        raise BrokenPipeError

    assert task(worker)[0] != 0


def test_another_error_is_told(task: Any) -> None:
    def worker(_connection: socket.socket, _authenticated: bool) -> int:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        task(worker)


def test_what_a_task_has_loaded_is_frozen_before_the_next(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only what the first one has: that may be of another query."""

    def loads(_connection: socket.socket, _authenticated: bool) -> int:
        monkeypatch.setitem(sys.modules, "loaded_late", ModuleType("loaded_late"))
        return 0

    def works(_connection: socket.socket, _authenticated: bool) -> int:
        return 0

    told = [task(each) for each in (works, works, works, loads, works, works)]

    assert told == [(0, 1), (0, 1), (0, 1), (0, 1), (0, 2), (0, 2)]


@pytest.mark.spark
def test_a_coordinators_workers_have_all_frozen_that_they_loaded(harness: Harness) -> None:
    """They begin with a task of another kind. After each task pyspark looks through what is not frozen."""

    def look(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for _ in batches:
            counts = {"loose": [len(gc.get_objects())], "frozen": [gc.get_freeze_count()]}
            yield RecordBatch.from_pydict(counts)

    def objects() -> list[Row]:
        return harness.spark.range(0, 2, 1, 2).mapInArrow(look, "loose long, frozen long").collect()

    with loading(harness.spark, harness.settings, harness.partitions):
        pass
    harness.start_and_warm_up()
    for _ in range(3):
        harness.call("heartbeat", "g", member_id="m", generation_id=0)
    assert harness.stop()
    # This way to a worker may load something by itself.
    objects()

    assert all(each.loose < each.frozen / 10 for each in objects())


def test_pyspark_is_taken_from_its_package_and_not_from_its_archive() -> None:
    """Spark puts the archive first. Python would compile what is in it at each start."""
    package, elsewhere = "/venv/site-packages", "/opt/spark/python/lib"
    archives = [f"{package}/pyspark/python/lib/{name}" for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip")]

    assert daemon.unzipped([*archives, "/venv/lib", package]) == ["/venv/lib", package]
    # That is of another Spark, or the only one there is.
    others = [f"{elsewhere}/pyspark.zip", package]
    assert daemon.unzipped(others) == others
    assert daemon.unzipped([*archives, "/venv/lib"]) == [*archives, "/venv/lib"]


def test_the_daemon_loads_nothing_that_begins_threads() -> None:
    """It forks, and a process that forks must have no other threads."""
    script = "import sys, group_coordinator.streaming.daemon; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert not {"numpy", "pandas", "pyarrow"} & {*done.stdout.split()}


@pytest.mark.spark
def test_workers_that_are_started_ahead_are_those_of_a_query(harness: Harness) -> None:
    """Spark keeps workers by their environment, and does not take one that has another for a task."""

    def of_query(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for _ in batches:
            yield RecordBatch.from_pydict(
                {"environment": [json.dumps(dict(os.environ))], "file": [pyspark.__file__]}
            )

    def ahead(_: Iterator[int]) -> Iterator[dict[str, str]]:
        yield dict(os.environ)

    ahead_environment = harness.spark.sparkContext.range(1, numSlices=1).mapPartitions(ahead).first()
    query = harness.spark.range(1).mapInArrow(of_query, "environment string, file string").first()

    assert query is not None
    assert json.loads(query.environment) == ahead_environment
    assert query.file == pyspark.__file__


def test_it_is_told_why_a_session_has_pysparks_own_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of which a core holds 17,000 are 1,300 then, and nothing else would show it."""

    def why(properties: dict[str, str]) -> str | None:
        return daemon.why_not_short(SparkConf(loadDefaults=False).setAll(list(properties.items())))

    assert why(daemon.daemon_defaults()) is None
    assert why({}) == "spark.python.daemon.module is not set"
    chosen = {"spark.python.daemon.module": "pyspark.daemon"}
    assert why(chosen) == "spark.python.daemon.module is pyspark.daemon"
    monkeypatch.setattr(pyspark, "__version__", "4.9.0")
    assert daemon.daemon_defaults() == {}
    assert why({}) == "pyspark is 4.9.0, and the shorter one is for 4.2.0"
