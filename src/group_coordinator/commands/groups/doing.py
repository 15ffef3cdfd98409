"""The way from options to an action, and from its report to the terminal."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import click
from kafka.admin import MemberToRemove, OffsetSpec, OffsetTimestamp
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from group_coordinator.client.admin import AdminClient, own_client_id
from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.channel import MissingTopicError
from group_coordinator.client.events import EventReader
from group_coordinator.client.messages import message_of
from group_coordinator.commands.command_config import config_to_connect
from group_coordinator.commands.groups import actions
from group_coordinator.commands.groups.as_it_was import AsItWas
from group_coordinator.commands.groups.plan import Planned
from group_coordinator.commands.groups.reset import ResetTo, reset_offsets
from group_coordinator.commands.output import put
from group_coordinator.commands.tables import Report
from group_coordinator.commands.terminal import fail, need, say, show
from group_coordinator.jobs.printable import printable_label

_NO_ACTION = (
    "warning: No action will be performed as the --execute option is missing. "
    "Add --dry-run if that is intended."
)
_CLEAR = "\x1b[H\x1b[2J"


def do(action: str, *, bootstrap_servers: str, command_config: str | None, **options: Any) -> None:
    """Connect, do what the options ask for, print its report, and exit with its code."""
    config = config_to_connect(bootstrap_servers, command_config)
    run = _action(action, options | {"client_config": config})
    try:
        admin = _admin(config, options)
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


def _admin(config: Mapping[str, Any], options: Mapping[str, Any]) -> actions.Admin:
    if options["of"] == "brokers":
        # Brokers' logs of requests tell who it was.
        return BrokersAdmin(request_timeout_ms=options["timeout"], **{"client_id": own_client_id(), **config})
    topics = ("request_topic", "response_topic", "groups_topic", "lag_topic")
    return AdminClient(
        request_timeout_ms=options["timeout"], **{name: options[name] for name in topics}, **config
    )


def _action(action: str, options: Mapping[str, Any]) -> Callable[[Any], Report]:
    """What to do with a client."""
    group_ids: tuple[str, ...] | None = None if options["all_groups"] else options["group"]
    match action:
        case "list":
            return lambda admin: actions.list_groups(admin, options["state"], options["type"])
        case "describe":
            view = "members" if options["members"] else "offsets" if options["state"] is None else "state"
            return lambda admin: actions.describe(
                admin, group_ids, view, lag=options["lag"], verbose=options["verbose"]
            )
        case "delete":
            return lambda admin: actions.delete(admin, group_ids, options["reason"])
        case "delete_offsets":
            return lambda admin: actions.delete_offsets(
                admin, options["group"][0], options["topic"], options["reason"]
            )
        case "remove_member":
            reason = options["reason"]
            members = [
                *(MemberToRemove(member_id=each, reason=reason) for each in options["member_id"]),
                *(MemberToRemove(group_instance_id=i, reason=reason) for i in options["group_instance_id"]),
            ]
            return lambda admin: actions.remove_members(admin, options["group"][0], members)
        case _:
            return _reset(group_ids, options)


def _reset(group_ids: tuple[str, ...] | None, options: Mapping[str, Any]) -> Callable[[Any], Report]:
    if not options["execute"] and not options["dry_run"]:
        say(_NO_ACTION)
    to = _target(group_ids, options)
    if options["to_history"] is not None or options["undo"]:
        to = replace(to, as_it_was=_as_it_was(options))
    return lambda admin: reset_offsets(
        admin,
        group_ids,
        options["topic"] or None,
        to,
        execute=options["execute"],
        export=options["export"],
        reason=options["reason"],
    )


def _as_it_was(options: Mapping[str, Any]) -> AsItWas:
    need("history", "deltalake", "pyarrow")
    from group_coordinator.commands.settings import history_settings
    from group_coordinator.history.reader import HistoryReader

    named = {"history.path": options["history_path"], "topics.events": options["events_topic"]}
    settings = history_settings(options["config"], {"of": options["of"], **named})

    def events(read: Mapping[int, int]) -> EventReader:
        return EventReader(
            begins={number: offset + 1 for number, offset in read.items()},
            events_topic=settings.topics_events,
            **options["client_config"],
        )

    return AsItWas(HistoryReader(settings.history_path), events, options["timeout"], options["to_history"])


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
