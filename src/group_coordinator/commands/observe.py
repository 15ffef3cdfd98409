"""`group-coordinator observe`: watch the groups that are at the brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from group_coordinator.commands.terminal import (
    bootstrap_option,
    config_option,
    metrics_port_option,
    need_spark,
    overriding,
    set_option,
)


@click.command("observe")
@bootstrap_option()
@click.option("--checkpoint", "observe_checkpoint", help="Directory or object-store URI for its state.")
@config_option()
@click.option("--create-topics", is_flag=True, default=None, help="Create the topics that are missing.")
@metrics_port_option("observe_metrics_port", 9470)
@set_option("observe.offsets=false or kafka.security.protocol=SSL")
def observe(*, config: Path | None, assignments: tuple[str, ...], **options: Any) -> None:
    """Watch groups at the brokers, until Ctrl-C.

    The job reads the brokers' own log of groups, __consumer_offsets, and changes nothing for anybody. It
    writes events, pictures of groups and committed offsets into topics of its own. With --of brokers the
    other commands show what is in these.

    \b
    group-coordinator observe --bootstrap-server kafka:9092 --create-topics --checkpoint /var/lib/gc-observe
    group-coordinator events --follow --of brokers
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    need_spark()
    from group_coordinator.commands.settings import job, job_settings
    from group_coordinator.deploy.jars import JarError
    from group_coordinator.jobs.signals import exiting_on_sigterm
    from group_coordinator.observe.service import ObserveError
    from group_coordinator.observe.service import observe as watch
    from group_coordinator.observe.settings import ObserveSettings
    from group_coordinator.streaming.topic_specs import TopicError

    overrides = overriding({**options, "of": "brokers"}, assignments)
    with exiting_on_sigterm():
        settings = job_settings(ObserveSettings, config, overrides)
        with job(settings, ObserveError, TopicError, JarError) as tell:
            watch(settings, tell)
