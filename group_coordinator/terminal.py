"""What the commands have in common: lines for people, on stderr."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["fail", "need_java", "need_spark", "say"]

# What the `spark` extra brings and a program that is only a member does without.
_SPARK_EXTRA = ("delta", "jgo", "pandas", "pyarrow", "pyspark")


def need_java() -> Path:
    """Path of a suitable java; without one, say so and exit."""
    from deploy.java import JavaNotFound, find_java

    try:
        return find_java()
    except JavaNotFound as error:
        fail(error)


def need_spark() -> None:
    """Check that the `spark` extra is installed; if not, say so and exit."""
    missing = [name for name in _SPARK_EXTRA if find_spec(name) is None]
    if missing:
        packages = ", ".join(missing)
        fail(f"this needs Spark ({packages} not installed): install group-coordinator with its extra [spark]")


def say(line: str) -> None:
    """Tell the user something."""
    click.echo(line, err=True)


def fail(error: Exception | str) -> NoReturn:
    """End with an error that the user can mend."""
    click.echo(f"error: {error}", err=True)
    sys.exit(1)
