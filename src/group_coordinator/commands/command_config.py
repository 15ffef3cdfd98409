"""`--command-config`: a file of Java client properties, as Kafka's own tools take it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from group_coordinator.commands.terminal import BOOTSTRAP_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# A logical line: a key up to the first unescaped = or : or blank, and a value.
_LINE = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def command_config_option() -> Callable[[Command], Command]:
    """The option for such a file."""
    return click.option(
        "--command-config",
        type=click.Path(),
        metavar="FILE",
        help="Java client properties, for SSL and SASL.",
    )


def read_properties(text: str) -> dict[str, str]:
    """Read a file in the format of java.util.Properties."""
    # An odd number of backslashes at the end of a line continues it.
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\n[ \t\f]*", r"\1", text.replace("\r\n", "\n"))
    lines = (line.lstrip() for line in joined.split("\n"))
    pairs = (_LINE.fullmatch(line) for line in lines if line and line[0] not in "#!")
    return {_unescaped(pair[1]): _unescaped(pair[2]) for pair in pairs if pair is not None}


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", character, text)


def config_to_connect(bootstrap_servers: str, path: str | None) -> dict[str, Any]:
    """`client_config`, with the wait for the first broker. Raises `click.UsageError`."""
    try:
        config = client_config(bootstrap_servers, path)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return config | {"bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS}


def client_config(bootstrap_servers: str, path: str | None) -> dict[str, Any]:
    """kafka-python's settings to connect as a Java client with these properties would.

    Raises ValueError with one line for a file that cannot be read, and for what kafka-python cannot follow.
    """
    if path is None:
        return {"bootstrap_servers": bootstrap_servers}
    from group_coordinator.jobs.kafka_config import python_client_config
    from group_coordinator.jobs.secret_files import read_value_files
    from group_coordinator.jobs.settings import SettingsError

    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text: {error}") from error
    try:
        given = read_value_files(read_properties(text))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    properties = {name: str(value) for name, value in given.items()}
    properties.pop("bootstrap.servers", None)  # the option wins, as in Kafka's tools
    try:
        return python_client_config(bootstrap_servers, properties)
    except SettingsError as error:
        # The coordinator's settings have these names with a prefix.
        raise ValueError(f"{path}: {str(error).replace('kafka.', '')}") from error
