"""What the commands have in common: lines for people, on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["fail", "need_java", "say"]


def need_java() -> Path:
    """Path of a suitable java; without one, say so and exit."""
    from deploy.java import JavaNotFound, find_java

    try:
        return find_java()
    except JavaNotFound as error:
        fail(error)


def say(line: str) -> None:
    """Tell the user something."""
    click.echo(line, err=True)


def fail(error: Exception) -> NoReturn:
    """End with an error that the user can mend."""
    click.echo(f"error: {error}", err=True)
    sys.exit(1)
