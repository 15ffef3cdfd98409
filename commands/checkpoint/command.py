"""`group-coordinator checkpoint inspect | export | restore | replay`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from group_coordinator.commands.checkpoint.exports import is_json_lines, read_export, write_export
from group_coordinator.commands.checkpoint.options import (
    errors,
    load,
    look_for_checkpoint,
    settings_options,
    spark_session,
)
from group_coordinator.commands.checkpoint.output import as_json, as_table
from group_coordinator.commands.terminal import bootstrap_option, say

__all__ = ["checkpoint"]

# Inspect and export read files only; but without this setting there are no settings.
_NO_KAFKA = "not-used:0"


@click.group()
def checkpoint() -> None:
    """Look into checkpoints, keep and move what is in them, and replay the log.

    \b
    group-coordinator checkpoint inspect /var/lib/coordinator
    group-coordinator checkpoint export /var/lib/coordinator --to groups.jsonl --with-secret
    group-coordinator checkpoint restore groups.jsonl --to /var/lib/coordinator-2 --state-partitions 8
    group-coordinator checkpoint replay groups.jsonl --group orders

    A checkpoint and a Delta table may be anywhere that Spark reaches; settings that it needs for that
    (spark.hadoop.fs.s3a...) come from --config and --set, as for `run`. The coordinator may run meanwhile.
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character


@checkpoint.command()
@click.argument("path")
@click.option("--batch", type=click.IntRange(min=0), help="As of this batch, not the newest committed one.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@settings_options
def inspect(
    *, path: str, batch: int | None, output: str, config: Path | None, assignments: tuple[str, ...]
) -> None:
    """Show batches, offsets, the watermark, and how many groups there are and how large."""
    with errors():
        from group_coordinator.checkpoints.inspection import inspect_checkpoint

        settings = load(config, assignments, {"checkpoint": path, "bootstrap.servers": _NO_KAFKA})
        look_for_checkpoint(settings)
        with spark_session(settings) as spark:
            inspection = inspect_checkpoint(spark, path, batch)
    click.echo(as_json(inspection) if output == "json" else as_table(inspection), nl=False)


@checkpoint.command()
@click.argument("path")
@click.option("--to", "target", required=True, metavar="FILE.jsonl|DELTA", help="A new file or table.")
@click.option("--batch", type=click.IntRange(min=0), help="As of this batch, not the newest committed one.")
@click.option("--with-secret", is_flag=True, help="Export the secret for member ids, too, in clear.")
@settings_options
def export(
    *,
    path: str,
    target: str,
    batch: int | None,
    with_secret: bool,
    config: Path | None,
    assignments: tuple[str, ...],
) -> None:
    """Write all groups, as of a batch, with what is needed to restore them."""
    with errors():
        from group_coordinator.checkpoints.export import export_checkpoint

        settings = load(config, assignments, {"checkpoint": path, "bootstrap.servers": _NO_KAFKA})
        look_for_checkpoint(settings)
        with spark_session(settings) as spark:
            exported = export_checkpoint(spark, path, batch, with_secret=with_secret)
            write_export(spark, exported, target)
    say(f"{exported.header.groups} groups as of batch {exported.header.batch_id} are in {target}")


@checkpoint.command()
@click.argument("source", metavar="EXPORT")
@click.option("--to", "target", required=True, metavar="CHECKPOINT", help="A new directory or URI.")
@click.option("--state-partitions", type=click.IntRange(min=1), help="Another number of state partitions.")
@click.option("--request-topic", help="Another request topic.")
@click.option("--clock-topic", help="Another clock topic.")
@click.option(
    "--starting-offsets",
    metavar="PLACE",
    help="Where to begin in the request topic, if not where the export ends: earliest, latest, a time such "
    'as 2026-01-31T12:00:00, or {"0": 123}. Needed for a topic that is not the one of the export.',
)
@click.option("--new-secret", is_flag=True, help="Ignore the secret in the export.")
@bootstrap_option()
@settings_options
def restore(
    *,
    source: str,
    target: str,
    bootstrap_servers: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    **choices: Any,
) -> None:
    """Make a new checkpoint of an export.

    Stop the coordinator before the export, unless it is lost: what it decides after it happens again.
    """
    with errors():
        from group_coordinator.checkpoints.restore import restore_checkpoint
        from group_coordinator.checkpoints.restore_plan import plan_restore
        from group_coordinator.jobs.kafka_config import python_client_config
        from group_coordinator.streaming.query import per_group

        overrides = {"checkpoint": target, "bootstrap.servers": bootstrap_servers}
        settings = load(config, assignments, overrides)
        client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
        with spark_session(settings) as spark:
            exported = read_export(spark, source)
            plan = plan_restore(
                exported.header,
                client_config,
                secret=settings.member_id_secret,
                **choices,
            )
            restore_checkpoint(spark, exported, target, plan.identity, plan.offsets, per_group)
    identity = plan.identity
    say(f"{exported.header.groups} groups are in {target}; it goes on at {_places(plan.offsets)}")
    say(
        f"run it with topics.requests={identity.request_topic}, topics.clock={identity.clock_topic} and "
        f"state.partitions={identity.state_partitions}"
    )


@checkpoint.command()
@click.argument("source", metavar="EXPORT")
@click.option(
    "--from",
    "start",
    metavar="PLACE",
    help="Begin here, without any groups: earliest, latest, a time, or offsets by partition. If not given, "
    "begin with the groups of the export, where it ends.",
)
@click.option("--to", "end", metavar="PLACE", default="latest", show_default=True, help="End before this.")
@click.option(
    "--until",
    metavar="TIME",
    help="After the last record let time pass to this (ISO 8601). If not given, to the newest record.",
)
@click.option("--group", "group_ids", multiple=True, help="Only this group (repeatable).")
@click.option(
    "--outages",
    type=click.Path(path_type=Path),
    help="The outages.json of the newest checkpoint. If not given, what the export has.",
)
@bootstrap_option()
@settings_options
def replay(
    *,
    source: str,
    bootstrap_servers: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    **choices: Any,
) -> None:
    """Run a part of the request log through the protocol again, and print the events, one JSON a line.

    Nothing is answered and nothing changed. The events are those of the live run, if the settings (--config)
    are; of each group they are in their order. The export tells the topic, and has to have the secret for
    member ids (--with-secret) unless member.id.secret is set.
    """
    with errors(), ExitStack() as stack:
        from group_coordinator.commands.checkpoint.replaying import events

        settings = load(config, assignments, {"checkpoint": "-", "bootstrap.servers": bootstrap_servers})
        spark = None if is_json_lines(source) else stack.enter_context(spark_session(settings))
        for event in events(settings, read_export(spark, source), **choices):
            click.echo(event)


def _places(offsets: Mapping[str, Mapping[int, int]]) -> str:
    return ", ".join(
        f"{topic}-{partition}:{offset}"
        for topic, partitions in sorted(offsets.items())
        for partition, offset in sorted(partitions.items())
    )
