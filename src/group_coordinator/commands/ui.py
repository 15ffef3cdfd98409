"""`group-coordinator ui`: the page, for people."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from group_coordinator.commands.terminal import (
    bootstrap_option,
    config_option,
    fail,
    of_option,
    overriding,
    say,
    set_option,
)
from group_coordinator.jobs.signals import stop_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from group_coordinator.jobs.signals import StopEvent
    from group_coordinator.page.live import Live

_PORT = 9465
_DEADLINE_S = 30.0
_LOOK_S = 0.2


@click.command()
@bootstrap_option()
@of_option("both")
@click.option("--history-path", help="Tables of write-history, from which the page shows the past.")
@click.option(
    "--host",
    "ui_host",
    help="Address to listen on. Anybody who reaches it can read everything.  [default: 127.0.0.1]",
)
@click.option(
    "--port",
    "ui_port",
    type=click.IntRange(0, 65535),
    help=f"Port; 0: any free one.  [default: {_PORT}]",
)
@config_option()
@set_option("topics.groups=... or kafka.security.protocol=SSL")
def ui(*, config: Path | None, assignments: tuple[str, ...], **options: Any) -> None:
    """Show the groups on a web page until SIGTERM or Ctrl-C.

    The page has a timeline of each group: its members, who owned what, and why it rebalanced. It is live, and
    with --history-path it shows any moment of the past. It changes nothing. Settings are those of `run`.

    \b
    group-coordinator ui --bootstrap-server kafka:9092 --history-path /var/lib/gc-history
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    import msgspec

    from group_coordinator.commands.settings import job, job_settings
    from group_coordinator.page.service import serving
    from group_coordinator.page.settings import PageSettings

    stopping = stop_event(signal.SIGTERM, signal.SIGINT)
    settings = job_settings(PageSettings, config, overriding(options, assignments))
    if settings.ui_port < 0:
        settings = msgspec.structs.replace(settings, ui_port=_PORT)
    with job(settings, logs=False) as tell, serving(settings, tell) as lives:
        _follow(lives, settings.bootstrap_servers, stopping)


def _problem(lives: Sequence[Live]) -> str | None:
    return next((live.problem for live in lives if live.problem is not None), None)


def _follow(lives: Sequence[Live], bootstrap_servers: str, stopping: StopEvent) -> None:
    """Say what the page waits for, until told to stop; end with an error if Kafka never answers."""
    say(f"connecting to Kafka at {bootstrap_servers}")
    deadline = time.monotonic() + _DEADLINE_S
    told = _problem(lives)
    while not stopping.wait(_LOOK_S):
        problem = _problem(lives)
        if not all(live.has_connected for live in lives):
            if time.monotonic() > deadline:
                fail(f"Kafka at {bootstrap_servers} has not answered for {_DEADLINE_S:g} s: {problem}")
        elif problem != told:
            say(problem or "the page shows all groups")
            told = problem
