"""`group-coordinator member`: its options."""

from __future__ import annotations

from typing import Any

import click

from group_coordinator.commands.command_config import command_config_option
from group_coordinator.commands.terminal import bootstrap_option, request_topic_option, topic_option
from group_coordinator.coordinator_state.topics import RESPONSES


@click.command()
@click.option("--group", "group_id", required=True, help="Group to join.")
@click.option("--units", type=click.IntRange(min=1), help="Share this many units: unit-0, unit-1, ...")
@click.option("--topic", "topics", multiple=True, help="Share the partitions of this topic (repeatable).")
@bootstrap_option(has_settings=False)
@command_config_option()
@request_topic_option()
@topic_option(
    "--response-topic",
    "topics.responses",
    RESPONSES,
    "Topic of the answers to this group; each tenant has its own.",
)
@click.option("--client-id", help="Name of the member in listings.  [default: host and process id]")
@click.option(
    "--instance-id",
    "group_instance_id",
    help="Be a static member of this name. It owns the same again if it restarts within the session timeout.",
)
@click.option(
    "--group-protocol",
    type=click.Choice(["classic", "consumer"]),
    default="classic",
    show_default=True,
    help="The protocol of the group. In consumer (KIP-848) the coordinator divides the work.",
)
@click.option(
    "--session-timeout-ms",
    type=int,
    help="Time without a heartbeat after which the coordinator expires the member, in ms. In the consumer "
    "protocol the coordinator's settings say it.  [default: 10000]",
)
@click.option(
    "--assignor",
    "assignors",
    multiple=True,
    help="range, roundrobin or sticky, in the classic protocol (repeatable, in order of preference).  "
    "[default: range, roundrobin]",
)
@click.option(
    "--server-assignor",
    help="The coordinator's assignor that the member votes for, uniform or range, in the consumer protocol.",
)
def member(*, units: int | None, topics: tuple[str, ...], **options: Any) -> None:
    """Join a group and say what happens, until Ctrl-C or SIGTERM.

    \b
    group-coordinator member --group g --units 12
    group-coordinator member --group g --topic orders --topic refunds --assignor sticky
    group-coordinator member --group g --units 12 --instance-id w1
    group-coordinator member --group g --topic orders --group-protocol consumer
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    if (units is None) == (not topics):
        raise click.UsageError("share either --units or the partitions of a --topic")
    # This needs Kafka's client, for which --help need not wait.
    from group_coordinator.commands.member.joining import join

    join(units, topics, **options)
