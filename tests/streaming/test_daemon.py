"""What the daemon's workers do around a task of pyspark's."""

from __future__ import annotations

import gc
import socket
from typing import Any

import pyspark
import pytest
from pyspark import SparkConf

from group_coordinator.streaming import daemon, worker


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run one as the daemon does, with something in the place of pyspark's worker."""
    # This process goes on with others' tests.
    monkeypatch.setattr(worker, "install", lambda: None)
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr(daemon, "_tasks", iter(range(10)))

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


def test_what_the_first_task_has_loaded_is_frozen_too(task: Any) -> None:
    told = [task(lambda _connection, _authenticated: 0) for _ in range(4)]

    assert told == [(0, 1), (0, 2), (0, 2), (0, 2)]


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
