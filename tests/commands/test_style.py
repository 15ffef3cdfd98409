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

from group_coordinator.client.work import DEFAULT_ASSIGNORS
from group_coordinator.commands.cli import main
from group_coordinator.commands.member.command import member
from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.history.settings import HistorySettings
from group_coordinator.jobs.settings import JobSettings
from group_coordinator.lag.settings import LagSettings
from group_coordinator.observe.settings import ObserveSettings
from group_coordinator.page.settings import PageSettings
from group_coordinator.streaming.settings import CoordinatorSettings
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
def test_kafka_is_named_by_the_option_of_kafkas_tools(name: str, command: click.Command) -> None:
    """The setting's name is taken as well, and not shown. All commands have the brokers of the setting."""
    options = [each for each in command.params if each.name == "bootstrap_servers"]
    assert len(options) == (name not in WITHOUT_KAFKA)
    for option in options:
        assert option.opts == ["--bootstrap-server"]
        assert isinstance(option, click.Option)
        assert str(option.help).endswith(f"[default: {JobSettings().bootstrap_servers}]")
        assert option.default in (None, JobSettings().bootstrap_servers)
        for given in ("--bootstrap-server", "--bootstrap-servers"):
            context = click.Context(command, resilient_parsing=True)
            command.parse_args(context, [given, "kafka:1"])
            assert context.params["bootstrap_servers"] == "kafka:1"


JOBS: dict[str, type[JobSettings]] = {
    "run": CoordinatorSettings,
    "doctor": CoordinatorSettings,
    "gateway": GatewaySettings,
    "measure-lag": LagSettings,
    "observe": ObserveSettings,
    "write-history": HistorySettings,
    "ui": PageSettings,
}


@pytest.mark.parametrize(("name", "settings"), JOBS.items(), ids=JOBS)
def test_options_of_jobs_are_named_by_their_settings(name: str, settings: type[JobSettings]) -> None:
    others = {"config", "assignments", "embedded", "once", "as_json"}
    options = {str(each.name) for each in dict(commands())[name].params} - others
    assert options - set(settings.__struct_fields__) == set()


HEAVY = {
    "asyncio",
    "kafka",
    "msgspec",
    "pandas",
    "prometheus_client",
    "pyarrow",
    "pyspark",
    "rich",
    "structlog",
}


@pytest.mark.parametrize("words", ["--help", "--version", *(f"{name} --help" for name, _ in commands())])
def test_help_waits_for_no_large_library(words: str) -> None:
    """Completion imports what help does: it must answer while somebody types."""
    program = (
        "import atexit, sys; from group_coordinator.__main__ import main; "
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words.split()], capture_output=True, text=True, check=False
    )
    assert "group_coordinator.commands.cli" in done.stderr
    assert HEAVY & set(done.stderr.split()) == set()


def test_a_member_has_the_assignors_that_its_help_names() -> None:
    (assignor,) = [each for each in member.params if each.name == "assignors"]
    assert f"[default: {', '.join(DEFAULT_ASSIGNORS)}]" in assignor.help


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
