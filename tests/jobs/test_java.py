"""The command that becomes Spark's JVM, by Spark's own scripts and a Java that tells how it is called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark

from group_coordinator.jobs.java import _WITHOUT_INCUBATOR

SPARK = Path(pyspark.__file__).parent
# Spark's launcher prints an empty line, and then the words of the command with a zero byte after each.
JAVA = r"""#!/usr/bin/env bash
if [[ $* == *launcher.Main* ]]; then
    printf '\n'
    printf '%s\0' "$0" --add-modules=jdk.incubator.vector "-Dtwo=words here" "${@: -3}"
else
    printf '%s\n' "$$" "$@"
fi
"""


def test_java_is_not_given_the_module_that_it_warns_of(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA)
    java.chmod(0o700)
    command = [
        "bash",
        "-c",
        _WITHOUT_INCUBATOR,
        str(SPARK / "bin" / "spark-submit"),
        "--conf",
        "a=b c",
        "app",
    ]
    environment = os.environ | {"JAVA_HOME": str(tmp_path), "SPARK_HOME": str(SPARK)}
    started = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    told, _ = started.communicate()

    # The process is the one that was started, whose end is waited for.
    assert told.splitlines() == [str(started.pid), "-Dtwo=words here", "--conf", "a=b c", "app"]
