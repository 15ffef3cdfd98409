"""`group-coordinator groups`: its options, in the words of kafka-consumer-groups.sh."""

from __future__ import annotations

from typing import Any

import click

from group_coordinator.commands.arguments import parse_topic, parsed
from group_coordinator.commands.command_config import command_config_option
from group_coordinator.commands.groups.options import (
    checked_action,
    parse_datetime,
    parse_duration,
    parse_lag,
    parse_reason,
    parse_states,
    parse_types,
)
from group_coordinator.commands.groups.plan import read_plan
from group_coordinator.commands.terminal import (
    bootstrap_option,
    config_option,
    events_topic_option,
    of_option,
    request_topic_option,
    timeout_option,
    topic_option,
)
from group_coordinator.commands.times import parsed_time
from group_coordinator.coordinator_state.topics import GROUPS, LAG, RESPONSES


@click.command()
# -- what to do
@click.option("--list", is_flag=True, help="List groups.")
@click.option("--describe", is_flag=True, help="Show members, committed offsets and lag of groups.")
@click.option("--delete", is_flag=True, help="Delete groups without members, and their offsets.")
@click.option("--delete-offsets", is_flag=True, help="Delete a group's committed offsets of topics.")
@click.option("--reset-offsets", is_flag=True, help="Commit other offsets for groups without members.")
@click.option("--remove-member", is_flag=True, help="Remove members from a group.")
# -- of which groups, topics and members
@click.option("--group", multiple=True, help="A group (repeatable).")
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option(
    "--topic",
    multiple=True,
    callback=parsed(parse_topic),
    metavar="TOPIC[:0,1]",
    help="A topic, or some of its partitions (repeatable).",
)
@click.option("--all-topics", is_flag=True, help="All topics of which the group has committed offsets.")
@click.option("--member-id", multiple=True, help="A member to remove (repeatable).")
@click.option("--group-instance-id", multiple=True, help="A static member to remove (repeatable).")
@click.option(
    "--reason",
    callback=parsed(parse_reason),
    metavar="TEXT",
    help="Reason for the change, which events and history keep: at most 255 characters.",
)
# -- what to show
@click.option("--offsets", is_flag=True, help="Show offsets (the default).")
@click.option("--members", is_flag=True, help="Show members.")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    callback=parsed(parse_states),
    metavar="[STATES]",
    help="Show states. With --list, also choose groups by state: stable,empty.",
)
@click.option(
    "--type",
    is_flag=False,
    flag_value="",
    callback=parsed(parse_types),
    metavar="[TYPES]",
    help="With --list, show types, and choose groups by type: classic,consumer.",
)
@click.option("--verbose", is_flag=True, help="Show more: epochs, assignments, targets.")
@click.option(
    "--lag",
    callback=parsed(parse_lag),
    metavar="CONDITION",
    help="Show only partitions with such a lag: '>0', '>=100', '=0'.",
)
@click.option("--output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
@click.option(
    "--watch",
    is_flag=False,
    flag_value="2",
    type=click.FloatRange(min=0.1),
    metavar="[SECONDS]",
    help="Repeat until Ctrl-C, once in so many seconds.  [default: 2]",
)
# -- where to reset offsets to
@click.option("--to-earliest", is_flag=True, help="Reset to the beginning of the log.")
@click.option("--to-latest", is_flag=True, help="Reset to the end of the log.")
@click.option(
    "--to-current", is_flag=True, help="Reset to the committed offsets, for example to export them."
)
@click.option("--to-offset", type=int, help="Reset to this offset.")
@click.option(
    "--to-datetime",
    callback=parsed(parse_datetime),
    metavar="DATETIME",
    help="Reset to a time: 2026-01-31T12:00:00.000, UTC.",
)
@click.option(
    "--by-duration",
    callback=parsed(parse_duration),
    metavar="DURATION",
    help="Reset to so long ago: P7D, PT2H30M.",
)
@click.option(
    "--shift-by", type=int, help="Move the committed offsets by so many records; back, if negative."
)
@click.option(
    "--from-file",
    callback=parsed(read_plan),
    metavar="FILE",
    help="Reset to the offsets of a CSV file: [group,]topic,partition,offset.",
)
@click.option(
    "--to-history",
    callback=parsed_time,
    metavar="TIME",
    help="Reset to what was committed then, as the history tells: 2026-01-31T14:05, 14:05, 30m ago.",
)
@click.option("--undo", is_flag=True, help="Reset to what was committed before the last reset.")
@click.option("--dry-run", is_flag=True, help="Show the new offsets without resetting (the default).")
@click.option("--execute", is_flag=True, help="Reset the offsets.")
@click.option("--export", is_flag=True, help="Write the new offsets as a file for --from-file.")
# -- where the history is
@click.option(
    "--history-path", help="Directory or object-store URI of the tables.  [default: the setting history.path]"
)
@config_option("Settings file (TOML), for history.path.")
@events_topic_option()
# -- where the coordinator is
@of_option(has_settings=False)
@bootstrap_option(has_settings=False)
@command_config_option()
@timeout_option("the coordinator's next answer")
@request_topic_option()
@topic_option(
    "--response-topic",
    "topics.responses",
    [RESPONSES],
    "Topic of the answers (repeatable, because each tenant has its own).",
)
@topic_option("--groups-topic", "topics.groups", GROUPS, "Topic of the groups as they are now.")
@topic_option("--lag-topic", "topics.lag", LAG, "Topic of the lag in seconds, if measure-lag runs.")
def groups(**options: Any) -> None:
    """Show and change groups, like kafka-consumer-groups.sh.

    \b
    group-coordinator groups --list --state --type consumer
    group-coordinator groups --describe --group g
    group-coordinator groups --describe --all-groups --lag '>0' --watch
    group-coordinator groups --describe --group g --members --verbose
    group-coordinator groups --reset-offsets --group g --topic orders --to-datetime 2026-01-31T12:00:00
    group-coordinator groups --reset-offsets --all-groups --all-topics --to-current --export > offsets.csv
    group-coordinator groups --reset-offsets --all-groups --from-file offsets.csv --execute
    group-coordinator groups --reset-offsets --group g --all-topics --to-history 14:05
    group-coordinator groups --reset-offsets --group g --undo
    group-coordinator groups --delete-offsets --group g --topic orders:0,1
    group-coordinator groups --remove-member --group g --group-instance-id worker-7
    group-coordinator groups --delete --group g

    Tables are for people and have the columns of Kafka's tool. Where measure-lag runs, --describe also tells
    how old the oldest record is that is left, which partitions stand still, and where the lag goes. With
    --output, json and csv have the same rows. Errors and warnings are on stderr, one line each.

    \b
    Exit codes:
      0  everything was done
      1  something was not done, for example because a group does not exist or has members
      2  wrong usage, and nothing was done
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    action = checked_action(options)
    # This needs Kafka's client, for which --help need not wait.
    from group_coordinator.commands.groups.doing import do

    do(action, **options)
