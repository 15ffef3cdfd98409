"""Finds a Java that Spark and Kafka can run on.

`python deploy/java.py` is the first thing that `make` runs, before anything is installed: only the standard
library may be imported here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 17
_ANSWER_TIMEOUT_S = 30


class JavaNotFound(Exception):  # noqa: N818 - reads as the sentence it is
    """No usable Java; the message is one line that says what to do."""


def find_java() -> Path:
    """Return the `java` of JAVA_HOME, else the first one on PATH.

    Raises JavaNotFound if there is none, if it does not run or if it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise JavaNotFound(_advice("none is on PATH and JAVA_HOME is not set"))
    version = java_version(Path(found))
    if version < OLDEST:
        raise JavaNotFound(_advice(f"found Java {version} at {found}"))
    return Path(found)


def java_version(java: Path) -> int:
    """Return the major version of a `java` executable: 8, 11, 17, ...

    Raises JavaNotFound if it does not run or its answer cannot be read.
    """
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaNotFound(_advice(f"{java} does not run")) from error
    # Up to 8 the first number is always 1: "1.8.0_392"; since 9 it is the version: "17.0.15", "25-ea".
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None:
        raise JavaNotFound(_advice(f"{java} does not say its version"))
    return int(match[1])


def _advice(problem: str) -> str:
    return (
        f"Java {OLDEST} or newer is needed; {problem}. "
        "Install one (for example Debian's openjdk-17-jre-headless) or set JAVA_HOME."
    )


def main() -> int:
    """Print the Java that will be used, or the one line that says what to do."""
    try:
        java = find_java()
        print(f"Java {java_version(java)} at {java}")
    except JavaNotFound as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
