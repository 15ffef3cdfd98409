"""What all commands have in common: how they spell errors, and how they are told where Kafka is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from group_coordinator.commands.cli import main
from tests.golden import assert_golden
from tests.rooms import HOUSE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

# Those that read tables only, or have a broker of their own.
WITHOUT_KAFKA = {"demo", "history", "checkpoint inspect", "checkpoint export"}


def commands(group: click.Group = main, *before: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield " ".join([*before, name]), command


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=dict(commands()))
def test_kafka_is_named_by_the_option_of_kafkas_tools_and_by_the_settings_name(
    name: str, command: click.Command
) -> None:
    names = {option for parameter in command.params for option in parameter.opts}
    expected = set() if name in WITHOUT_KAFKA else {"--bootstrap-server", "--bootstrap-servers"}
    assert expected == {option for option in names if option.startswith("--bootstrap")}


@pytest.mark.parametrize("words", ["--nope", "nope", *(f"{name} --nope" for name, _ in commands())])
def test_wrong_usage_is_spelled_as_all_errors_are(words: str) -> None:
    result = CliRunner().invoke(main, words.split())

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].startswith("error: No such ")


_HELP = """
import os, sys
from group_coordinator.__main__ import main
import group_coordinator.commands.cli

for name in sys.argv[1:]:
    if not os.fork():
        sys.argv = ["group-coordinator", *name.split(), "--help"]
        main()
    if os.wait()[1]:
        sys.exit(name)
    print(end="\\0", flush=True)
"""


def test_the_words_of_all_help() -> None:
    """As a process each has it on 80 columns: click remembers how a command was called before."""
    done = subprocess.run(
        [sys.executable, "-c", _HELP, "", "checkpoint", *(name for name, _ in commands())],
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    pages = done.stdout.split("\0")[:-1]
    listed = [line for page in pages for line in page.partition("\nCommands:\n")[2].splitlines()]
    assert [line for line in listed if line.endswith("...")] == []
    assert_golden("help", "\n".join(pages))


def test_without_a_command_it_shows_help() -> None:
    result = CliRunner().invoke(main, [])

    assert (result.exit_code, result.stdout) == (2, "")
    assert "error" not in result.stderr
    assert "write-history" in result.stderr


def test_the_extras_that_commands_advise_are_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    files = (HOUSE / "commands").rglob("*.py")
    advised = {extra for file in files for extra in re.findall(r'\bneed\("([^"]+)"', file.read_text())}
    assert {"measure-lag", "gateway", "spark", "history"} <= advised
    assert advised <= project["optional-dependencies"].keys()
