"""The common part of the commands: what they need, options for settings, and lines for people on stderr."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from group_coordinator.commands.output import tell
from group_coordinator.coordinator_state.topics import BROKERS_EVENTS, EVENTS, REQUESTS
from group_coordinator.deploy.extras import missing
from group_coordinator.jobs.printable import printable_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from group_coordinator.commands.tables import Report
    from group_coordinator.jobs.settings import JobSettings

Command = TypeVar("Command", bound="Callable[..., Any]")
AnySettings = TypeVar("AnySettings", bound="JobSettings")

BOOTSTRAP_SERVERS = "localhost:9092"
"""The brokers of all commands, unless they are told of others; the setting bootstrap.servers has the same."""
BOOTSTRAP_TIMEOUT_MS = 10_000
"""After kafka-python's own half a minute nobody would know what a command waits for."""
_SPARK = ("pandas", "prometheus_client", "pyarrow", "pyspark", "rich", "structlog")


class _BootstrapOption(click.Option):
    """Takes the setting's name as well, which no help shows: it is in scripts that people have."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown = self.opts
        self.opts = [*shown, "--bootstrap-servers"]
        super().add_to_parser(parser, ctx)
        self.opts = shown


def bootstrap_option(*, has_settings: bool = True) -> Callable[[Command], Command]:
    """The option for the Kafka brokers, by the name that Kafka's tools give it.

    A command that `has_settings` takes bootstrap.servers from a file as well.
    """
    return click.option(
        "--bootstrap-server",
        "bootstrap_servers",
        cls=_BootstrapOption,
        metavar="HOST:PORT",
        default=None if has_settings else BOOTSTRAP_SERVERS,
        envvar=None if has_settings else "GROUP_COORDINATOR_BOOTSTRAP_SERVERS",
        help=f"Kafka brokers, with commas between.  [default: {BOOTSTRAP_SERVERS}]",
    )


def of_option(*others: str, has_settings: bool = True) -> Callable[[Command], Command]:
    """The option for the side of groups that a command is about. `others`: what it may be besides.

    A command that `has_settings` takes `of` from a file and the environment as well.
    """
    return click.option(
        "--of",
        type=click.Choice(["coordinator", "brokers", *others]),
        default=None if has_settings else "coordinator",
        envvar=None if has_settings else "GROUP_COORDINATOR_OF",
        help="Groups of the coordinator, or groups at the brokers, which `observe` watches"
        f"{''.join(f', or {each}' for each in others)}.  [default: coordinator]",
    )


def timeout_option(whose: str) -> Callable[[Command], Command]:
    """The option for the longest wait for an answer."""
    return click.option(
        "--timeout",
        type=click.IntRange(min=1),
        default=30_000,
        show_default=True,
        metavar="MS",
        help=f"Longest wait for {whose}, in ms.",
    )


def topic_option(
    option: str, setting: str, default: str | list[str], help_: str
) -> Callable[[Command], Command]:
    """The option for a topic of the coordinator; for several if `default` is a list.

    `setting`: that of the jobs, of which the environment variable counts here as well.
    """
    return click.option(
        option,
        multiple=isinstance(default, list),
        default=default,
        show_default=True,
        envvar=f"GROUP_COORDINATOR_{setting.replace('.', '_').upper()}",
        help=help_,
    )


def request_topic_option() -> Callable[[Command], Command]:
    """The option for the topic that the coordinator reads."""
    return topic_option("--request-topic", "topics.requests", REQUESTS, "Topic that the coordinator reads.")


def metrics_port_option(
    setting: str, default: int, reader: str = "Prometheus"
) -> Callable[[Command], Command]:
    """The option for the port of the metrics, with the name of its setting and what that is by default."""
    return click.option(
        "--metrics-port",
        setting,
        type=int,
        help=f"Port for {reader}; 0: any free one, -1: none.  [default: {default}]",
    )


def events_topic_option() -> Callable[[Command], Command]:
    """The option for the topic of the events, of either side."""
    return click.option(
        "--events-topic",
        help=f"Topic of the events.  [default: {EVENTS}, with --of brokers {BROKERS_EVENTS}]",
    )


def config_option(help_: str = "Settings file (TOML).") -> Callable[[Command], Command]:
    """The option for the settings file, which an environment variable can name as well."""
    return click.option(
        "--config", type=click.Path(path_type=Path), envvar="GROUP_COORDINATOR_CONFIG", help=help_
    )


def set_option(examples: str) -> Callable[[Command], Command]:
    """The option for any other setting, with some of them as `examples`."""
    return click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="NAME=VALUE",
        help=f"Another setting (repeatable), such as {examples}.",
    )


def need(extra: str, *modules: str) -> None:
    """Check that the modules of an extra are there. If not, say so and exit."""
    if advice := missing(extra, *modules):
        fail(advice)


def need_spark(*, java: bool = True) -> None:
    """Check that the `spark` extra is there, and a suitable `java`, and have Spark use that.

    If not, say so and exit.
    """
    from group_coordinator.deploy.java import JavaNotFound

    need("spark", *_SPARK)
    try:
        if java:
            use_java()
    except JavaNotFound as error:
        fail(error)


def use_java() -> None:
    """Have Spark use the Java that is found. Raises `JavaNotFound`."""
    from group_coordinator.deploy.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().parent.parent)


def overriding(options: Mapping[str, object], assignments: Iterable[str] = ()) -> dict[str, object]:
    """The settings of a command line: its own options that were given, then each NAME=VALUE of --set.

    The parameter of an option has the name of its setting, with `_` for each dot.
    """
    settings = {name.replace("_", "."): value for name, value in options.items() if value is not None}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"--set wants NAME=VALUE, not {assignment!r}")
        settings[name.strip()] = value
    return settings


def at_terminal(settings: AnySettings) -> AnySettings:
    """Choose the form of log lines where `log.format` is auto: short on a terminal, logfmt elsewhere.

    Executors of a cluster do not log to this terminal.
    """
    is_here = settings.spark.get("spark.master", "local").startswith("local")
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if settings.log_format != "auto" or not sys.stderr.isatty() or is_submitted or not is_here:
        return settings
    import msgspec

    return msgspec.structs.replace(settings, log_format="short")


def say(line: str) -> None:
    """Tell the user something, in one line."""
    tell(f"{printable_label(line)}\n")


def show(report: Report, form: str) -> None:
    """Print what a command was asked for as a table, JSON or CSV, and its messages."""
    for text, write in report.written(form):
        write(text)


def fail(error: Exception | str, tell: Callable[[str], None] = say) -> NoReturn:
    """End with an error that the user can mend, which is told as the commands' other lines are."""
    tell(f"error: {error}")
    sys.exit(1)
