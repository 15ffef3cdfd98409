"""`group-coordinator events`: what happens to groups, as it happens."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from group_coordinator.commands.command_config import client_config, command_config_option
from group_coordinator.commands.output import json_of, put, put_json
from group_coordinator.commands.terminal import (
    BOOTSTRAP_TIMEOUT_MS,
    bootstrap_option,
    events_topic_option,
    fail,
    of_option,
    say,
)
from group_coordinator.commands.times import parsed_time
from group_coordinator.coordinator_state.topics import BROKERS_EVENTS, EVENTS

if TYPE_CHECKING:
    from group_coordinator.client.events import EventReader
    from group_coordinator.jobs.signals import StopEvent

_POLL_MS = 500
_COMMITS = "offsets_committed"
_DEFAULT_BACK = timedelta(hours=1)
_TOPICS = {
    "coordinator": ("GROUP_COORDINATOR_TOPICS_EVENTS", EVENTS),
    "brokers": ("GROUP_COORDINATOR_BROKERS_TOPICS_EVENTS", BROKERS_EVENTS),
}
"""Of each side the variable that names its topic, and the name that it has by default."""


@click.command()
@bootstrap_option(has_settings=False)
@of_option(has_settings=False)
@click.option("--group", "groups", multiple=True, help="Show only this group (repeatable).")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    help="Show only events of this kind (repeatable), such as member_removed.",
)
@click.option(
    "--cause",
    "causes",
    multiple=True,
    help="Show only rebalances with this cause and members who went for it (repeatable), such as "
    "session_expired.",
)
@click.option(
    "--from",
    "since",
    callback=parsed_time,
    metavar="TIME",
    help="Begin with events of this time.  [default: 1h, with --follow now]",
)
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "--output",
    type=click.Choice(["line", "json"]),
    default="line",
    show_default=True,
    help="Each event as one line for people, or as one line of JSON with all that the topic has.",
)
# Scripts that people have give this one.
@click.option("--json", "as_json", is_flag=True, hidden=True)
@events_topic_option()
@command_config_option()
def events(  # noqa: PLR0913 - one for each option
    *,
    bootstrap_servers: str,
    of: str,
    groups: tuple[str, ...],
    kinds: tuple[str, ...],
    causes: tuple[str, ...],
    since: datetime | None,
    follow: bool,
    output: str,
    as_json: bool,
    events_topic: str | None,
    command_config: str | None,
) -> None:
    """Show what happens to groups, as it happens.

    These are joins, rebalances with their cause, members that went and why, and offsets that were reset.
    Commits of offsets are shown only with --kind offsets_committed, since there are so many. The events are
    read from a topic, and nobody is asked. `history` answers questions about them.

    A line is for people, on a terminal and elsewhere, and its words may change. Programs take --output json.

    \b
    group-coordinator events --group orders --from 14:00
    group-coordinator events --follow --cause session_expired --output json
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    from kafka.errors import KafkaError

    from group_coordinator.client.channel import MissingTopicError
    from group_coordinator.client.events import EventReader
    from group_coordinator.client.messages import message_of
    from group_coordinator.jobs.signals import stop_event

    stopping = stop_event(signal.SIGTERM, signal.SIGINT)
    now = datetime.now(UTC)
    begin = since or (now if follow else now - _DEFAULT_BACK)
    try:
        with EventReader(
            since_ms=round(begin.timestamp() * 1_000),
            groups=groups,
            events_topic=events_topic or _topic(of),
            bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
            **client_config(bootstrap_servers, command_config),
        ) as reader:
            _show(reader, stopping, kinds, causes, follow=follow, as_json=as_json or output == "json")
    except (MissingTopicError, ValueError) as error:
        fail(error)
    except KafkaError as error:
        fail(f"Kafka at {bootstrap_servers}: {message_of(error)}")


def _topic(of: str) -> str:
    variable, default = _TOPICS[of]
    return os.environ.get(variable) or default


def _show(
    reader: EventReader,
    stopping: StopEvent,
    kinds: tuple[str, ...],
    causes: tuple[str, ...],
    *,
    follow: bool,
    as_json: bool,
) -> None:
    from group_coordinator.commands.event_lines import line_of

    shown = 0
    while not stopping.is_set():
        for event in reader.poll(_POLL_MS):
            if _is_wanted(event, kinds, causes):
                shown += 1
                if as_json:
                    put_json(f"{json_of(event)}\n")
                else:
                    put(f"{line_of(event)}\n")
        if not follow and reader.has_caught_up:
            break
    if not (shown or follow):
        say("there are no such events in that time; --from begins earlier")


def _is_wanted(event: dict[str, Any], kinds: tuple[str, ...], causes: tuple[str, ...]) -> bool:
    if causes and event.get("cause") not in causes and event.get("reason") not in causes:
        return False
    return event["event"] in kinds if kinds else event["event"] != _COMMITS
