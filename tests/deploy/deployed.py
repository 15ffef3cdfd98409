"""What the files of deploy/ start: the image's environment, and the settings that a command ends up with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from group_coordinator.commands import settings as loading
from group_coordinator.commands.cli import main
from group_coordinator.jobs.settings import SettingsError

__all__ = ["DEPLOY", "DOCKERFILE", "image_environment", "instructions", "settings_of"]

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKERFILE = (DEPLOY / "container" / "Dockerfile").read_text()


def instructions(name: str) -> list[str]:
    """What follows `name` in the Dockerfile, with continued lines put together."""
    lines = re.sub(r"\\\n(\s*#.*\n)*", " ", DOCKERFILE).splitlines()
    return [line.removeprefix(name).strip() for line in lines if line.startswith(f"{name} ")]


def image_environment() -> dict[str, str]:
    """The variables of ours that the image sets, those of its build included."""
    words = (word.split("=", 1) for line in instructions("ENV") for word in shlex.split(line))
    return {name: value for name, value in words if name.startswith("GROUP_COORDINATOR_")}


def settings_of(words: Sequence[str], variables: Mapping[str, str]) -> Any:
    """Have the command line read these words as the image does; return the settings that it would run with.

    Its own parser and its own loader do that. The command ends where it has them.
    """
    load, loaded = loading.load_settings, list[Any]()

    def only_load(*arguments: Any, **named: Any) -> None:
        loaded.append(load(*arguments, **named))
        raise SettingsError("that is all")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load_settings", only_load)
        done = CliRunner().invoke(main, list(words), env=image_environment() | variables)
    assert done.output == "error: that is all\n", done.output
    (settings,) = loaded
    return settings
