"""`group-coordinator groups`: look at groups, and change them, in the words of kafka-consumer-groups.sh."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import click
from kafka.admin import MemberToRemove, OffsetSpec, OffsetTimestamp
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from group_coordinator.client.admin import AdminClient
from group_coordinator.client.channel import MissingTopicError
from group_coordinator.client.messages import message_of
from group_coordinator.commands.arguments import parse_topic, parsed
from group_coordinator.commands.command_config import client_config, command_config_option
from group_coordinator.commands.groups import actions
from group_coordinator.commands.groups.options import checked_action, parse_lag, parse_states
from group_coordinator.commands.groups.plan import Planned, read_plan
from group_coordinator.commands.groups.reset import ResetTo, parse_datetime, parse_duration, reset_offsets
from group_coordinator.commands.output import put
from group_coordinator.commands.tables import Report
from group_coordinator.commands.terminal import (
    BOOTSTRAP_TIMEOUT_MS,
    bootstrap_option,
    fail,
    request_topic_option,
    say,
    show,
)
from group_coordinator.coordinator_state.topics import GROUPS, LAG, RESPONSES
from group_coordinator.jobs.printable import printable_label

__all__ = ["groups"]

_NO_ACTION = (
    "warning: No action will be performed as the --execute option is missing. "
    "Add --dry-run if that is intended."
)
_CLEAR = "\x1b[H\x1b[2J"


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
@click.option("--reason", help="Reason for the removal, which the history keeps.")
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
@click.option("--verbose", is_flag=True, help="Show more: leader epochs, assignments.")
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
@click.option("--dry-run", is_flag=True, help="Show the new offsets without resetting (the default).")
@click.option("--execute", is_flag=True, help="Reset the offsets.")
@click.option("--export", is_flag=True, help="Write the new offsets as a file for --from-file.")
# -- where the coordinator is
@bootstrap_option("localhost:9092")
@command_config_option()
@click.option(
    "--timeout",
    type=click.IntRange(min=1),
    default=30_000,
    show_default=True,
    metavar="MS",
    help="Longest wait for the coordinator's next answer, in ms.",
)
@request_topic_option()
@click.option(
    "--response-topic",
    multiple=True,
    default=[RESPONSES],
    show_default=True,
    envvar="GROUP_COORDINATOR_TOPICS_RESPONSES",
    help="Topic of the answers (repeatable, because each tenant has its own).",
)
@click.option(
    "--groups-topic",
    default=GROUPS,
    show_default=True,
    envvar="GROUP_COORDINATOR_TOPICS_GROUPS",
    help="Topic of the groups as they are now.",
)
@click.option(
    "--lag-topic",
    default=LAG,
    show_default=True,
    envvar="GROUP_COORDINATOR_TOPICS_LAG",
    help="Topic of the lag in seconds, if measure-lag runs.",
)
def groups(
    *,
    bootstrap_servers: str,
    command_config: str | None,
    timeout: int,
    request_topic: str,
    response_topic: tuple[str, ...],
    groups_topic: str,
    lag_topic: str,
    **options: Any,
) -> None:
    """Show and change groups, like kafka-consumer-groups.sh.

    \b
    group-coordinator groups --list --state
    group-coordinator groups --describe --group g
    group-coordinator groups --describe --all-groups --lag '>0' --watch
    group-coordinator groups --describe --group g --members --verbose
    group-coordinator groups --reset-offsets --group g --topic orders --to-datetime 2026-01-31T12:00:00
    group-coordinator groups --reset-offsets --all-groups --all-topics --to-current --export > offsets.csv
    group-coordinator groups --reset-offsets --all-groups --from-file offsets.csv --execute
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
    run = _action(checked_action(options), options)
    try:
        config = client_config(bootstrap_servers, command_config)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        admin = AdminClient(
            request_timeout_ms=timeout,
            request_topic=request_topic,
            response_topic=response_topic,
            groups_topic=groups_topic,
            lag_topic=lag_topic,
            bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
            **config,
        )
    except MissingTopicError as error:
        fail(str(error))
    except KafkaError as error:
        fail(f"cannot use Kafka at {bootstrap_servers}: {message_of(error)}")
    with admin:
        try:
            if options["watch"] is not None:
                _watch(lambda: run(admin), options["watch"])
            report = run(admin)
        except (KafkaError, MissingTopicError) as error:
            fail(message_of(error) if isinstance(error, KafkaError) else str(error))
        show(report, options["output"])
    sys.exit(report.exit_code)


def _action(action: str, options: Mapping[str, Any]) -> Callable[[AdminClient], Report]:
    """What to do with a client."""
    group_ids: tuple[str, ...] | None = None if options["all_groups"] else options["group"]
    match action:
        case "list":
            return lambda admin: actions.list_groups(admin, options["state"])
        case "describe":
            view = "members" if options["members"] else "offsets" if options["state"] is None else "state"
            return lambda admin: actions.describe(
                admin, group_ids, view, lag=options["lag"], verbose=options["verbose"]
            )
        case "delete":
            return lambda admin: actions.delete(admin, group_ids)
        case "delete_offsets":
            return lambda admin: actions.delete_offsets(admin, options["group"][0], options["topic"])
        case "remove_member":
            reason = options["reason"]
            members = [
                *(MemberToRemove(member_id=each, reason=reason) for each in options["member_id"]),
                *(MemberToRemove(group_instance_id=i, reason=reason) for i in options["group_instance_id"]),
            ]
            return lambda admin: actions.remove_members(admin, options["group"][0], members)
        case _:
            return _reset(group_ids, options)


def _reset(group_ids: tuple[str, ...] | None, options: Mapping[str, Any]) -> Callable[[AdminClient], Report]:
    if not options["execute"] and not options["dry_run"]:
        say(_NO_ACTION)
    to = _target(group_ids, options)
    return lambda admin: reset_offsets(
        admin,
        group_ids,
        options["topic"] or None,
        to,
        execute=options["execute"],
        export=options["export"],
    )


def _target(group_ids: tuple[str, ...] | None, options: Mapping[str, Any]) -> ResetTo:
    spec = OffsetSpec.LATEST
    since_ms = options["to_datetime"]
    if options["by_duration"] is not None:
        since_ms = time.time_ns() // 1_000_000 - options["by_duration"]
    if since_ms is not None:
        spec = OffsetTimestamp(max(since_ms, 0))  # below 0 they have meanings of their own
    elif options["to_earliest"]:
        spec = OffsetSpec.EARLIEST
    elif options["to_offset"] is not None:
        spec = options["to_offset"]
    return ResetTo(
        spec=spec,
        current=options["to_current"],
        shift_by=options["shift_by"],
        plan=None if options["from_file"] is None else _plan(group_ids, options["from_file"]),
    )


def _plan(
    group_ids: tuple[str, ...] | None, lines: Iterable[Planned]
) -> dict[str, dict[TopicPartition, int]]:
    plan: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for line in lines:
        group_id = line.group_id
        if group_id is None:
            if group_ids is None or len(group_ids) > 1:
                raise click.UsageError(
                    "--from-file: the lines name no group, so exactly one --group is needed"
                )
            (group_id,) = group_ids
        plan[group_id][line.partition] = line.offset
    return dict(plan)


def _watch(run: Callable[[], Report], seconds: float) -> NoReturn:
    """Show it until Ctrl-C, which is no error then. What fails may be back the next time."""
    try:
        while True:
            try:
                text = "".join(text for text, _ in run().written("table"))
            except KafkaError as error:
                text = f"\nerror: {printable_label(message_of(error))}\n"
            clear = _CLEAR if sys.stdout.isatty() else ""
            put(f"{clear}{time.strftime('%H:%M:%S')}\n{text}\n")
            time.sleep(seconds)
    except KeyboardInterrupt:
        sys.exit(0)
