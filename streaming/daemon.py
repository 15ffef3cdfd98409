"""Spark's Python daemon, with workers that take the short way (`group_coordinator.streaming.worker`).

Spark runs it as `spark.python.daemon.module` says (`daemon_defaults`). There is no other hook, because
pyspark's own daemon only forks pyspark's own workers.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any


def unzipped(path: list[str]) -> list[str]:
    """`path` without archives of a pyspark that is on it as a package as well.

    Spark puts its archive first. Python would compile all modules of it, at each start: half a second.
    """
    archives = {Path(it, "pyspark", "python", "lib") for it in path}
    return [it for it in path if Path(it).parent not in archives]


if __name__ == "__main__":
    sys.path = unzipped(sys.path)

import pyspark.daemon  # noqa: E402 - from where that says

import group_coordinator.streaming.function  # noqa: E402, F401 - once, and not in each worker
from group_coordinator.jobs.java import TESTED_VERSIONS  # noqa: E402

if TYPE_CHECKING:
    import socket

    from pyspark import SparkConf

    from group_coordinator.streaming.settings import CoordinatorSettings

_ENDED = 1
"""The exit code by which pyspark's daemon ends the worker as well."""

_PROPERTY = "spark.python.daemon.module"
_MODULE = "group_coordinator.streaming.daemon"

_daemon: Any = pyspark.daemon
_pysparks_worker = _daemon.worker
_frozen: set[int] = set()
"""How many modules there were each time this worker has frozen them."""


def daemon_defaults() -> dict[str, str]:
    """Spark's properties that give a session this daemon; none for a pyspark that was not tested."""
    if pyspark.__version__ not in TESTED_VERSIONS:
        return {}
    return {_PROPERTY: _MODULE}


def session_defaults(settings: CoordinatorSettings) -> dict[str, str]:
    """Spark's properties that a session of the coordinator has besides those of all jobs."""
    return {"spark.sql.shuffle.partitions": str(settings.state_partitions), **daemon_defaults()}


def why_not_short(conf: SparkConf) -> str | None:
    """Return why a session with these properties has pyspark's own workers; None if it has this daemon's."""
    module = conf.get(_PROPERTY)
    if pyspark.__version__ not in TESTED_VERSIONS:
        return f"pyspark is {pyspark.__version__}, and the shorter one is for {', '.join(TESTED_VERSIONS)}"
    return None if module == _MODULE else f"{_PROPERTY} is {module or 'not set'}"


def _worker(connection: socket.socket, authenticated: bool) -> int:  # noqa: FBT001 - as pyspark's
    # Not above: pyarrow and pandas begin threads, which a process must not have that forks.
    from group_coordinator.streaming.worker import install  # noqa: PLC0415

    install()
    _freeze_modules()
    try:
        return _pysparks_worker(connection, authenticated)  # type: ignore[no-any-return]
    except BrokenPipeError:
        # Spark has ended the task, as when it is stopped, and reads no more: nothing to be looked into.
        return _ENDED


def _freeze_modules() -> None:
    """Keep pyspark, which collects garbage after each task, from looking through all modules each time.

    A task of a kind that this worker has not had before may have loaded more of them.
    """
    modules = len(sys.modules)
    if modules not in _frozen:
        _frozen.add(modules)
        gc.freeze()


if __name__ == "__main__":
    if pyspark.__version__ in TESTED_VERSIONS:
        _daemon.worker = _worker
    _daemon.manager()
