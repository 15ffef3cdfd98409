"""`group-coordinator write-history`: the job that makes tables of the events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from group_coordinator.commands.terminal import (
    bootstrap_option,
    config_option,
    metrics_port_option,
    need,
    need_spark,
    of_option,
    overriding,
    set_option,
)


@click.command("write-history")
@bootstrap_option()
@of_option()
@click.option("--history-path", help="Directory or object-store URI of the tables.")
@config_option()
@click.option(
    "--once", is_flag=True, help="Write the events that there are now, and end. This serves no metrics."
)
@metrics_port_option("history_metrics_port", 9466)
@set_option("history.retention.days=90 or kafka.security.protocol=SSL")
def write_history(*, config: Path | None, once: bool, assignments: tuple[str, ...], **options: Any) -> None:
    """Write all events into Delta tables until SIGTERM or Ctrl-C.

    The job reads the events that the coordinator writes, with the same settings (see `run`), in a process of
    its own. You can stop it and start it again later, and the coordinator does not notice. Each event is in
    the tables once, if the job starts again before the topic's retention is over.

    \b
    group-coordinator write-history --bootstrap-server kafka:9092 --history-path /var/lib/gc-history
    group-coordinator write-history --config coordinator.toml --once
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    need_spark()
    need("delta", "delta")
    from group_coordinator.commands.settings import job, job_settings
    from group_coordinator.deploy.jars import JarError
    from group_coordinator.history.errors import HistoryError
    from group_coordinator.history.service import write_history as write
    from group_coordinator.history.settings import HistorySettings
    from group_coordinator.jobs.signals import exiting_on_sigterm

    needed = ("bootstrap.servers", "history.path")
    with exiting_on_sigterm():
        settings = job_settings(HistorySettings, config, overriding(options, assignments), needed)
        with job(settings, HistoryError, JarError) as tell:
            write(settings, tell, once=once, progress=True)
