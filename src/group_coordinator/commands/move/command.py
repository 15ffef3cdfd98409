"""`group-coordinator move`: its options."""

from __future__ import annotations

from typing import Any

import click

from group_coordinator.commands.command_config import command_config_option
from group_coordinator.commands.terminal import (
    bootstrap_option,
    request_topic_option,
    timeout_option,
    topic_option,
)
from group_coordinator.coordinator_state.topics import GROUP_SIDES, RESPONSES


@click.command()
@click.argument("group")
@click.option(
    "--to", type=click.Choice(["coordinator", "brokers"]), required=True, help="Side to move it to."
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option(
    "--overwrite",
    is_flag=True,
    help="Take it from the other side, even if no record says it is there and offsets of --to are newer.",
)
@click.option(
    "--members-timeout",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Longest wait for members to leave, and for their offsets to rest. It should be longer than their "
    "session timeout.",
)
@click.option("--output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
@bootstrap_option(has_settings=False)
@command_config_option()
@timeout_option("an answer of the coordinator or the brokers")
@request_topic_option()
@topic_option("--response-topic", "topics.responses", RESPONSES, "Topic of the coordinator's answers.")
@topic_option(
    "--sides-topic",
    "topics.sides",
    GROUP_SIDES,
    "Topic of the sides of groups, which the gateways read. It is created if it is missing.",
)
def move(**options: Any) -> None:
    """Move a group to the coordinator or the brokers.

    Its committed offsets go with it.

    \b
    group-coordinator move billing --to coordinator --dry-run
    group-coordinator move billing --to coordinator
    group-coordinator move billing --to brokers

    Members may go on reading if they come through gateways that have gateway.groups.brokers. They cannot
    commit meanwhile, and read again what is not committed. Nothing is deleted where the group comes from. If
    the command is interrupted, run it again, to either side.

    \b
    Exit codes:
      0  the group is there
      1  it is not, and stderr says why
      2  wrong usage, and nothing was done
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    from group_coordinator.commands.move.doing import do

    do(**options)
