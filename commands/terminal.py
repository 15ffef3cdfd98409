"""What the commands have in common: what they need, options for settings, and lines for people on stderr."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "config_option",
    "fail",
    "missing",
    "need",
    "need_delta",
    "need_spark",
    "overriding",
    "say",
]

Command = TypeVar("Command", bound="Callable[..., Any]")

_SPARK = ("jgo", "pandas", "prometheus_client", "pyarrow", "pyspark", "rich", "structlog")


def config_option(help_: str = "Settings file (TOML).") -> Callable[[Command], Command]:
    """The option for the settings file, which may be in the environment, too."""
    return click.option(
        "--config", type=click.Path(path_type=Path), envvar="GROUP_COORDINATOR_CONFIG", help=help_
    )


def missing(extra: str, *modules: str) -> str | None:
    """What to tell somebody who has not installed the modules that `extra` brings; None if they are there."""
    absent = [name for name in modules if find_spec(name) is None]
    if not absent:
        return None
    are = "is" if len(absent) == 1 else "are"
    return (
        f"{', '.join(absent)} {are} not installed. In the clone that group-coordinator comes from, run: "
        f"pip install '.[{extra}]'"
    )


def need(extra: str, *modules: str) -> None:
    """Check that the modules of an extra are there. If not, say so and exit."""
    if advice := missing(extra, *modules):
        fail(advice)


def need_spark() -> None:
    """Check that the `spark` extra and a suitable Java are there, and have Spark use that.

    If not, say so and exit.
    """
    from group_coordinator.deploy.java import JavaNotFound, find_java

    need("spark", *_SPARK)
    try:
        os.environ["JAVA_HOME"] = str(find_java().parent.parent)
    except JavaNotFound as error:
        fail(error)


def need_delta() -> None:
    """Check that the `delta` extra is there. If not, say so and exit."""
    need("delta", "delta")


def overriding(options: Mapping[str, object], assignments: Iterable[str]) -> dict[str, object]:
    """The settings of a command line: its own options that were given, then each NAME=VALUE of --set."""
    settings = {name: value for name, value in options.items() if value is not None}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"--set wants NAME=VALUE, not {assignment!r}")
        settings[name.strip()] = value
    return settings


def say(line: str) -> None:
    """Tell the user something."""
    click.echo(line, err=True)


def fail(error: Exception | str, tell: Callable[[str], None] = say) -> NoReturn:
    """End with an error that the user can mend, which is told as the commands' other lines are."""
    tell(f"error: {error}")
    sys.exit(1)
