"""Spark's JVM: how it starts, and how its session does."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark import SparkConf

TESTED_VERSIONS = ("4.2.0",)
"""The versions of pyspark whose internals this project uses. With others it does without."""

_WITHOUT_INCUBATOR = """
exec() {
    if [[ $1 == */spark-class ]]; then . "$@"; return; fi
    local word words=()
    for word; do [[ $word == --add-modules=jdk.incubator.vector ]] || words+=("$word"); done
    builtin exec "${words[@]}"
}
. "$0" "$@"
"""
"""Runs spark-submit and what that runs, and takes a module from the command that becomes Java.

Java warns of the module on the terminal at each start. MLlib alone uses it. Spark names it in any case.
"""
_BEHIND = 10
"""The niceness at which a thread has a tenth of what others want."""


def launch(conf: SparkConf) -> None:
    """Start the JVM with these properties; with one that runs, do nothing. Raises `PySparkException`."""
    with _started_as_a_part():
        SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 - pyspark has no other way
    _compile_behind()


@contextmanager
def _started_as_a_part() -> Iterator[None]:
    """Let a JVM that pyspark starts warn of nothing, and ignore SIGTERM, as pyspark lets it ignore SIGINT.

    A supervisor may send the signal to all processes at once. Spark would then end in the middle of a batch,
    while Python waits for the batch's end. The JVM ends with Python, whose pipe to it closes.
    """
    launcher: Any = java_gateway
    popen = launcher.Popen

    def start(
        command: Sequence[str], *, preexec_fn: Callable[[], object] = int, **options: Any
    ) -> subprocess.Popen[bytes]:
        def prepare() -> None:
            preexec_fn()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        started: subprocess.Popen[bytes] = popen(
            ["bash", "-c", _WITHOUT_INCUBATOR, *command], preexec_fn=prepare, **options
        )
        return started

    launcher.Popen = start
    try:
        yield
    finally:
        launcher.Popen = popen


def _compile_behind() -> None:
    """Let the JVM's second compiler wait for all that has to be done now.

    At a start it wants half of all CPU time, for code that is not slow without it. Later it has little to do.
    Linux alone has priorities of threads.
    """
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - pyspark has no other way
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    for name in Path("/proc", str(process.pid), "task").glob("*/comm"):
        with suppress(OSError):
            if name.read_text().startswith("C2 "):
                os.setpriority(os.PRIO_PROCESS, int(name.parent.name), _BEHIND)


def session_of(conf: SparkConf) -> SparkSession:
    """The session with these properties; if there is one, that one. The JVM runs.

    A new one does not look for extensions in all jars. It would find one of MLlib's, which takes most of a
    second to begin, for two functions that nobody here calls. Those in `spark.sql.extensions` are not looked
    for, but named.
    """
    named = conf.contains("spark.sql.extensions")
    before: Any = SparkContext._active_spark_context  # noqa: SLF001 - pyspark has no other way
    if named or before is not None or pyspark.__version__ not in TESTED_VERSIONS:
        return SparkSession.builder.config(conf=conf).getOrCreate()
    context: Any = SparkContext.getOrCreate(conf)
    java: Any = context._jvm  # noqa: SLF001 - as pyspark's
    nothing = java.scala.Option.empty()
    no_options = getattr(getattr(java, "scala.collection.immutable.Map$"), "MODULE$").empty()
    session = java.org.apache.spark.sql.classic.SparkSession(
        context._jsc.sc(),  # noqa: SLF001 - as pyspark's
        nothing,
        nothing,
        java.org.apache.spark.sql.SparkSessionExtensions(),
        no_options,
        no_options,
    )
    return SparkSession(context, session)
