"""The way from the options to the move, and what it tells."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from kafka.admin import OffsetSpec
from kafka.errors import GroupAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError
from kafka.structs import TopicPartition

from group_coordinator.client.admin import AdminClient, own_client_id
from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.brokers_guard import BrokersGuard
from group_coordinator.client.channel import MissingTopicError
from group_coordinator.client.messages import message_of
from group_coordinator.client.sides_log import SidesLog
from group_coordinator.commands.command_config import config_to_connect
from group_coordinator.commands.move.places import AtBrokers, AtCoordinator, SidesTopic
from group_coordinator.commands.move.steps import Look, Mover, RefusedError, World
from group_coordinator.commands.tables import Column, Line, Report, Row, Table
from group_coordinator.commands.terminal import fail, say, show
from group_coordinator.coordinator_state.sides import Side

_COLUMNS = (
    Column("TOPIC", 15, grows=True),
    Column("PARTITION", 10),
    Column("OFFSET", 15),
    Column("OFFSET-THERE", 15),
    Column("LOG-END-OFFSET", 15),
    Column("LAG", 15),
    Column("CHANGE", 10),
)


def do(group: str, to: Side, *, dry_run: bool, output: str, **options: Any) -> None:
    """Connect, move the group or look at it, tell it, and exit with a code."""
    client_id = own_client_id("move")
    timeout = options["timeout"]
    config = config_to_connect(options["bootstrap_servers"], options["command_config"])
    config |= {"client_id": client_id}
    try:
        with ExitStack() as stack:
            admin = stack.enter_context(
                AdminClient(
                    request_timeout_ms=timeout,
                    request_topic=options["request_topic"],
                    response_topic=options["response_topic"],
                    **config,
                )
            )
            brokers = stack.enter_context(BrokersAdmin(request_timeout_ms=timeout, **config))
            guard = stack.enter_context(BrokersGuard(request_timeout_ms=timeout, **config))
            log = stack.enter_context(SidesLog(options["sides_topic"], config, timeout))
            mover = Mover(
                group,
                to,
                World(AtCoordinator(admin), AtBrokers(brokers, guard), SidesTopic(log, config), say),
                client_id=client_id,
                timeout_s=options["members_timeout"],
                overwrites=options["overwrite"],
            )
            look = mover.look() if dry_run else mover.move()
            report = planned(group, to, look, _ends(brokers, look)) if dry_run else done(group, to, look)
    except (RefusedError, MissingTopicError) as error:
        fail(str(error))
    except GroupAuthorizationFailedError:
        fail(f"a right is missing on group {group!r}: Read, Describe or Delete, or Read on its topics")
    except TopicAuthorizationFailedError as error:
        fail(_lacking(error))
    except KafkaError as error:
        fail(message_of(error))
    except KeyboardInterrupt:
        fail("interrupted")
    show(report, output)
    sys.exit(report.exit_code)


def _lacking(error: TopicAuthorizationFailedError) -> str:
    """It has the topic, several, or a message, by whom it comes from."""
    said = error.args[0] if error.args else message_of(error)
    names = [said] if isinstance(said, str) else sorted(said)
    return f"a right is missing on topic {', '.join(map(str, names))}"


def done(group_id: str, to: Side, look: Look) -> Report:
    """Tell what is done. `look`: the group before it."""
    if look.already:
        return _already(group_id, to)
    if look.origin == to:
        return Report([Line(f"Group '{group_id}' is at the {to} again, with the offsets that it has.")])
    tool = "group-coordinator groups" if to == "coordinator" else "kafka-consumer-groups.sh"
    command = f"{tool} --describe --group {shlex.quote(group_id)}"
    return Report([Line(f"Group '{group_id}' is at the {to}: see {command}")])


def planned(group_id: str, to: Side, look: Look, ends: Mapping[TopicPartition, int]) -> Report:
    """Tell what is found, and what would be done. `ends`: where the logs end."""
    if look.already:
        return _already(group_id, to)
    if look.origin == to:
        return Report([Line(f"Group '{group_id}' would be at the {to} again, with the offsets that it has.")])
    report = Report()
    for each in look.seen[look.origin].members:
        report.note(f"{each.client_id} of {each.client_host} is a member, and would leave.")
    here, there = look.offsets[look.origin], look.offsets[to]
    rows: list[Row] = []
    for partition in sorted(here.keys() | there.keys()):
        old, new, end = there.get(partition), here.get(partition), ends.get(partition)
        change = "delete" if new is None else "keep" if old == new else "commit"
        lag = None if new is None or end is None else max(0, end - new.offset)
        offsets = (None if new is None else new.offset, None if old is None else old.offset)
        rows.append((partition.topic, partition.partition, *offsets, end, lag, change))
    report.items.append(Table(_COLUMNS, rows))
    if look.obstacle:
        report.fail(f"Group '{group_id}' cannot be moved: {look.obstacle}")
    return report


def _already(group_id: str, to: Side) -> Report:
    return Report([Line(f"Group '{group_id}' is at the {to} already.")])


def _ends(brokers: BrokersAdmin, look: Look) -> dict[TopicPartition, int]:
    partitions = {each: OffsetSpec.LATEST for offsets in look.offsets.values() for each in offsets}
    return {each: it.offset for each, it in brokers.list_partition_offsets(partitions).items()}
