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
from group_coordinator.commands.output import put, put_json
from group_coordinator.commands.terminal import bootstrap_option, say
from group_coordinator.jobs.printable import printable_json

# Inspect and export read files only; but without this setting there are no settings.
_NO_KAFKA = "not-used:0"


@click.group()
def checkpoint() -> None:
    """Inspect, export and restore checkpoints; replay the log.

    \b
    group-coordinator checkpoint inspect /var/lib/coordinator
    group-coordinator checkpoint export /var/lib/coordinator --to groups.jsonl --with-secret
    group-coordinator checkpoint restore groups.jsonl --to /var/lib/coordinator-2 --state-partitions 8
    group-coordinator checkpoint replay groups.jsonl --group orders

    A checkpoint and a Delta table may be anywhere that Spark reaches. Give the settings that Spark needs for
    that (spark.hadoop.fs.s3a...) with --config and --set, as for `run`. The coordinator may run meanwhile.
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character


@checkpoint.command()
@click.argument("path")
@click.option(
    "--batch", type=click.IntRange(min=0), help="Batch to read.  [default: the newest committed one]"
)
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@settings_options
def inspect(
    *, path: str, batch: int | None, output: str, config: Path | None, assignments: tuple[str, ...]
) -> None:
    """Show batches, offsets, the watermark and the groups' sizes."""
    with errors():
        from group_coordinator.checkpoints.inspection import inspect_checkpoint
        from group_coordinator.commands.checkpoint.output import as_json, as_table

        settings = load(config, assignments, {"checkpoint": path, "bootstrap.servers": _NO_KAFKA})
        look_for_checkpoint(settings)
        with spark_session(settings, delta=False) as spark:
            inspection = inspect_checkpoint(spark, path, batch)
    if output == "json":
        put_json(as_json(inspection))
    else:
        put(as_table(inspection))


@checkpoint.command()
@click.argument("path")
@click.option("--to", "target", required=True, metavar="FILE.jsonl|DELTA", help="New file or table.")
@click.option(
    "--batch", type=click.IntRange(min=0), help="Batch to read.  [default: the newest committed one]"
)
@click.option("--with-secret", is_flag=True, help="Also export the secret for member ids, in plain text.")
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
    """Write all groups, and everything that a restore needs."""
    with errors():
        from group_coordinator.checkpoints.export import export_checkpoint

        settings = load(config, assignments, {"checkpoint": path, "bootstrap.servers": _NO_KAFKA})
        look_for_checkpoint(settings)
        with spark_session(settings, delta=not is_json_lines(target)) as spark:
            exported = export_checkpoint(spark, path, batch, with_secret=with_secret)
            write_export(spark, exported, target)
    say(f"{exported.header.groups} groups as of batch {exported.header.batch_id} are in {target}")


@checkpoint.command()
@click.argument("source", metavar="EXPORT")
@click.option("--to", "target", required=True, metavar="CHECKPOINT", help="New directory or URI.")
@click.option(
    "--state-partitions",
    type=click.IntRange(min=1),
    help="Number of state partitions.  [default: that of the export]",
)
@click.option("--request-topic", help="Request topic.  [default: that of the export]")
@click.option("--clock-topic", help="Clock topic.  [default: that of the export]")
@click.option(
    "--starting-offsets",
    metavar="PLACE",
    help="Place in the request topic to begin at: earliest, latest, a time such as 2026-01-31T12:00:00, or "
    '{"0": 123}. A topic other than that of the export needs one.  [default: where the export ends]',
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
    """Make a new checkpoint from an export.

    Stop the coordinator before you export, unless it is lost. The restored one decides again what the other
    one decided after the export.
    """
    with errors():
        from group_coordinator.checkpoints.restore import restore_checkpoint
        from group_coordinator.checkpoints.restore_plan import plan_restore
        from group_coordinator.jobs.kafka_config import python_client_config
        from group_coordinator.streaming.query import per_group

        overrides = {"checkpoint": target, "bootstrap.servers": bootstrap_servers}
        settings = load(config, assignments, overrides)
        client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
        with spark_session(settings, delta=not is_json_lines(source)) as spark:
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
    help="Place to begin at, without any groups: earliest, latest, a time, or offsets by partition.  "
    "[default: where the export ends, with its groups]",
)
@click.option(
    "--to", "end", metavar="PLACE", default="latest", show_default=True, help="Place to end before."
)
@click.option(
    "--until",
    metavar="TIME",
    help="Time that the replay goes on to after the last record (ISO 8601).  [default: the newest record's]",
)
@click.option("--group", "group_ids", multiple=True, help="Group to replay (repeatable).  [default: all]")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    help="File ledger.json of the newest checkpoint.  [default: what is noted in the export]",
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
    """Replay a part of the request log, and print the events as JSON.

    A replay answers no request and changes nothing. With the settings of the live run (--config) it prints
    the same events, those of each group in their order. The export names the topic. It needs the secret for
    member ids (--with-secret), unless member.id.secret is set.
    """
    with errors(), ExitStack() as stack:
        from group_coordinator.commands.checkpoint.replaying import events

        settings = load(config, assignments, {"checkpoint": "-", "bootstrap.servers": bootstrap_servers})
        spark = None if is_json_lines(source) else stack.enter_context(spark_session(settings, delta=True))
        for event in events(settings, read_export(spark, source), **choices):
            # As the topic has it, but for what a terminal would obey.
            put_json(f"{printable_json(event)}\n")


def _places(offsets: Mapping[str, Mapping[int, int]]) -> str:
    return ", ".join(
        f"{topic}-{partition}:{offset}"
        for topic, partitions in sorted(offsets.items())
        for partition, offset in sorted(partitions.items())
    )
