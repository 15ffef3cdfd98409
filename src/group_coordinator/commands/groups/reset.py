"""`--reset-offsets`: where to, and the doing of it.

The rules and the messages are those of kafka-consumer-groups.sh (ConsumerGroupCommand.java and
OffsetsUtils.java of Apache Kafka 4.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka.admin import OffsetSpec, OffsetTimestamp
from kafka.errors import GroupIdNotFoundError, NoError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.admin import AdminClient
from group_coordinator.client.descriptions import GroupDescription
from group_coordinator.client.log_offsets import Log, reset_target
from group_coordinator.client.messages import message_of
from group_coordinator.client.progress import has_logs
from group_coordinator.commands.arguments import TopicArgument
from group_coordinator.commands.groups.actions import Admin, descriptions
from group_coordinator.commands.groups.as_it_was import AsItWas, Commits
from group_coordinator.commands.groups.plan import written_plan
from group_coordinator.commands.groups.views import GROUP, PARTITION, TOPIC
from group_coordinator.commands.tables import Cell, Column, File, Note, Report, Row, Table
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.config import INT64_MAX

if TYPE_CHECKING:
    from group_coordinator.history.rows import OffsetChange

Offsets = dict[TopicPartition, int]

# Without a log there is nothing to stay within.
_NO_LOG = Log(0, INT64_MAX)
# Kafka's tool has the first four.
_COLUMNS = (
    *(GROUP, TOPIC, PARTITION, Column("NEW-OFFSET", 15)),
    *(Column("OLD-OFFSET", 15), Column("READ-AGAIN", 10), Column("SKIPPED", 10)),
    Column("AGE-SECONDS", optional=True),
)


@dataclass(frozen=True)
class ResetTo:
    """The offsets to reset to.

    `plan`: to these offsets, by group and partition. `as_it_was`: to what was committed. `shift_by`: this
    many after what is committed. `current`: to what is committed. `spec`: to this, as far as the others say
    nothing; an offset, or kafka-python's OffsetSpec or OffsetTimestamp.
    """

    spec: int = OffsetSpec.LATEST
    current: bool = False
    shift_by: int | None = None
    plan: Mapping[str, Mapping[TopicPartition, int]] | None = None
    as_it_was: AsItWas | None = None


class _AsItIs(int):
    """An offset that need not be in the log: it is committed already."""


def reset_offsets(
    admin: Admin,
    group_ids: Collection[str] | None,
    topics: Sequence[TopicArgument] | None,
    to: ResetTo,
    *,
    execute: bool,
    export: bool = False,
    reason: str | None = None,
) -> Report:
    """Reset groups that have no members, or show what would be; `topics` None means all that is committed.

    Partitions that cannot be reset stay as they are, and the others are reset. `reason`: why, in the events.
    """
    report = Report()
    groups = _inactive(admin, group_ids, report)
    current = admin.list_group_offsets(groups.keys()) if groups else {}
    commits: dict[str, Commits] = {}
    if to.as_it_was is not None:
        wanted = dict.fromkeys(groups) if topics is None else _named(admin, groups, topics, report)
        commits = to.as_it_was.commits(wanted, current, admin.find_topics, report) if groups else {}
        specs = {group_id: _offsets(of_group) for group_id, of_group in commits.items()}
    else:
        specs = _specs(admin, groups, topics, to, current, report)
    offsets = _resolved(admin, groups, specs, report)
    if execute:
        offsets = _committed(admin, offsets, commits, reason, report)
    if export:
        with_groups = group_ids is None or len(group_ids) > 1
        report.items.append(File(written_plan(offsets, with_groups=with_groups)))
    else:
        rows: list[Row] = [
            (
                *(group_id, partition.topic, partition.partition, offset),
                *_compared(offset, current[group_id].get(partition)),
                _age_s(commits.get(group_id, {}).get(partition), to),
            )
            for group_id, of_group in offsets.items()
            for partition, offset in of_group.items()
        ]
        report.items.append(Table(_COLUMNS, rows))
    return report


def _compared(offset: int, old: OffsetAndMetadata | None) -> tuple[Cell, ...]:
    """The offset that was committed, and how many records are read again and are skipped, at most."""
    if old is None:
        return None, None, None
    return old.offset, max(0, old.offset - offset), max(0, offset - old.offset)


def _age_s(commit: OffsetChange | None, to: ResetTo) -> int | None:
    """How long before the moment it was committed."""
    moment = None if to.as_it_was is None else to.as_it_was.moment
    return None if commit is None or moment is None else round((moment - commit.at).total_seconds())


def _inactive(admin: Admin, group_ids: Collection[str] | None, report: Report) -> dict[str, GroupDescription]:
    """The groups that may be reset. One that is not there may: it begins with the offsets it is given."""
    inactive = {}
    for group_id, group in descriptions(admin, group_ids).items():
        if group.error is not None and not isinstance(group.error, GroupIdNotFoundError):
            report.fail(f"Group '{group_id}' cannot be reset: {message_of(group.error)}")
        elif group.group_state in (GroupState.EMPTY, GroupState.DEAD):
            inactive[group_id] = group
        else:
            report.fail(
                f"Assignments can only be reset if the group '{group_id}' is inactive, but the current "
                f"state is {group.group_state}."
            )
    return inactive


# -- what is meant ---------------------------------------------------------------------------------------


def _specs(
    admin: Admin,
    groups: Mapping[str, GroupDescription],
    topics: Sequence[TopicArgument] | None,
    to: ResetTo,
    committed: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]],
    report: Report,
) -> dict[str, Offsets]:
    """By group and partition: an OffsetSpec, an OffsetTimestamp, or an offset."""
    if to.plan is not None:
        for group_id in groups:
            if group_id not in to.plan:
                report.fail(f"No reset plan for group {group_id} found")
        return {group_id: dict(to.plan[group_id]) for group_id in groups if group_id in to.plan}
    current = {
        group_id: {partition: each.offset for partition, each in offsets.items()}
        for group_id, offsets in committed.items()
    }
    partitions = current if topics is None else _named(admin, groups, topics, report)
    return {
        group_id: _specs_of(group_id, partitions[group_id], current[group_id], to, report)
        for group_id in groups
    }


def _named(
    admin: Admin,
    groups: Mapping[str, GroupDescription],
    topics: Sequence[TopicArgument],
    report: Report,
) -> dict[str, set[TopicPartition]]:
    """The partitions that `--topic` names: of a topic all that Kafka has, of a unit of work its one."""
    exact = {TopicPartition(topic, number) for topic, numbers in topics for number in numbers or ()}
    whole = {topic for topic, numbers in topics if numbers is None}
    existing: set[TopicPartition] = set()
    if any(map(has_logs, groups.values())):
        existing = admin.partitions(whole)
        for topic in sorted(whole - {partition.topic for partition in existing}):
            report.fail(f"Topic '{topic}' does not exist.")
    units = {TopicPartition(topic, 0) for topic in whole}
    return {group_id: exact | (existing if has_logs(group) else units) for group_id, group in groups.items()}


def _specs_of(
    group_id: str, partitions: Collection[TopicPartition], current: Offsets, to: ResetTo, report: Report
) -> Offsets:
    if to.current:
        return {each: _AsItIs(current[each]) if each in current else to.spec for each in partitions}
    if to.shift_by is None:
        return dict.fromkeys(partitions, to.spec)
    lacking = _names(each for each in partitions if each not in current)
    if lacking:
        report.fail(
            f"Cannot shift offsets of group '{group_id}' for partitions {lacking} since there is no "
            f"current committed offset"
        )
    return {each: current[each] + to.shift_by for each in partitions if each in current}


# -- where that is, and going there ----------------------------------------------------------------------


def _resolved(
    admin: Admin, groups: Mapping[str, GroupDescription], specs: dict[str, Offsets], report: Report
) -> dict[str, Offsets]:
    """The offsets, by group and partition in order."""
    to_look_up = {
        partition: spec
        for group_id, of_group in specs.items()
        if has_logs(groups[group_id])
        for partition, spec in of_group.items()
        if not isinstance(spec, _AsItIs)
    }
    logs = admin.logs(to_look_up)
    if missing := _names(to_look_up.keys() - logs.keys()):
        report.fail(f"The partitions {missing} do not exist, or have no leader")
    warnings: dict[str, None] = {}
    offsets: dict[str, Offsets] = {}
    for group_id, of_group in specs.items():
        offsets[group_id] = {}
        needs_log = any(isinstance(spec, OffsetSpec | OffsetTimestamp) for spec in of_group.values())
        if needs_log and not has_logs(groups[group_id]):
            report.fail(
                f"Group '{group_id}' shares units of work, which have no log: use --to-offset, "
                f"--shift-by, --to-current or --from-file"
            )
            continue
        for partition, spec in sorted(of_group.items()):
            log = logs.get(partition) if has_logs(groups[group_id]) else _NO_LOG
            if isinstance(spec, _AsItIs):
                offsets[group_id][partition] = int(spec)
            elif log is not None:
                target = reset_target(partition, spec, log)
                offsets[group_id][partition] = target.offset
                warnings[target.warning] = None
    report.items += [Note(f"warning: {warning}") for warning in warnings if warning]
    return offsets


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions))


def _offsets(commits: Commits) -> Offsets:
    return {each: row.committed_offset for each, row in commits.items() if row.committed_offset is not None}


def _committed(
    admin: Admin,
    offsets: dict[str, Offsets],
    commits: Mapping[str, Commits],
    reason: str | None,
    report: Report,
) -> dict[str, Offsets]:
    """Commit, and return what is committed now. What was committed before comes back with its metadata."""
    wanted = {
        group_id: {
            each: _whole(offset, commits.get(group_id, {}).get(each)) for each, offset in of_group.items()
        }
        for group_id, of_group in offsets.items()
    }
    errors = (
        admin.alter_offsets_of_groups(wanted, reason=reason)
        if isinstance(admin, AdminClient)
        else admin.alter_offsets_of_groups(wanted)
    )
    for group_id, of_group in errors.items():
        for error in dict.fromkeys(error for error in of_group.values() if error is not NoError):
            report.fail(f"Group '{group_id}' could not be reset due to: {message_of(error)}")
    return {
        group_id: {each: offset for each, offset in of_group.items() if errors[group_id][each] is NoError}
        for group_id, of_group in offsets.items()
    }


def _whole(offset: int, commit: OffsetChange | None) -> OffsetAndMetadata:
    """The offset, with the metadata if it is that of the commit.

    A reset gives no leader epoch. That of a topic before it was made again may be one that no leader has, and
    Java's consumer waits for it.
    """
    if commit is None or commit.committed_offset != offset:
        return OffsetAndMetadata(offset)
    return OffsetAndMetadata(offset, commit.metadata or "")
