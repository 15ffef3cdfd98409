"""The actions of the command, one function for each, apart from `--reset-offsets`.

The messages are those of kafka-consumer-groups.sh (ConsumerGroupCommand.java of Apache Kafka 4.2).
`group_ids` None means all groups; however many they are, every question is asked once for all. Each thing
that is not there is one line, and does not spoil the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from kafka.admin import MemberToRemove
from kafka.errors import GroupIdNotFoundError, KafkaError, NoError, NonEmptyGroupError
from kafka.structs import TopicPartition

from group_coordinator.client.admin import AdminClient
from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.descriptions import GroupDescription
from group_coordinator.client.lag_log import Measurement
from group_coordinator.client.messages import message_of
from group_coordinator.client.progress import measured
from group_coordinator.commands.arguments import TopicArgument
from group_coordinator.commands.groups.options import LagFilter
from group_coordinator.commands.groups.views import (
    GROUP,
    PARTITION,
    TOPIC,
    group_list,
    members_table,
    offsets_table,
    state_table,
)
from group_coordinator.commands.tables import Column, Failure, Line, Note, Report, Row, Table
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer.states import GroupState as ConsumerState

_REBALANCING = (
    *(GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE),
    *(ConsumerState.ASSIGNING, ConsumerState.RECONCILING),
)
_STATUS = Column("STATUS", 15)
_SUCCESSFUL = "Successful"


Admin = AdminClient | BrokersAdmin


def list_groups(
    admin: Admin, states: Collection[str] | None = None, types: Collection[str] | None = None
) -> Report:
    """`--list`; with `states` it shows them, and unless that is empty only groups in one of them.

    `types`: likewise.
    """
    groups = admin.list_groups(states, types)
    return Report([group_list(groups, with_state=states is not None, with_type=types is not None)])


# -- describe --------------------------------------------------------------------------------------------


def describe(
    admin: Admin,
    group_ids: Collection[str] | None,
    view: str,
    *,
    lag: LagFilter | None = None,
    verbose: bool = False,
) -> Report:
    """`--describe`: a table for each group. `view` is "offsets", "members" or "state"."""
    report, lags = Report(), dict[str, Measurement]()
    match view:
        case "members":
            groups = descriptions(admin, group_ids)
            tables = {each: members_table(group, verbose=verbose) for each, group in groups.items()}
        case "state" if isinstance(admin, AdminClient):
            groups = descriptions(admin, group_ids)
            where = admin.find_coordinator(groups.keys())
            tables = {
                each: state_table(group, where[each], verbose=verbose) for each, group in groups.items()
            }
        case _:
            both = admin.describe_groups_and_offsets(_ids(admin, group_ids))
            groups = _sorted({each: group for each, (group, _) in both.items()}, group_ids)
            progress = measured(admin, {each: both[each] for each in groups})
            lags, warnings = _measured_lags(admin, group_ids)
            is_measured = not groups.keys().isdisjoint(lags)
            tables = {
                each: offsets_table(
                    each,
                    progress[each],
                    lag=lag,
                    verbose=verbose,
                    measurement=lags.get(each),
                    is_measured=is_measured,
                )
                for each in groups
            }
            report.items += warnings
    for group_id, group in groups.items():
        table = tables[group_id]
        if group.error is not None:
            report.fail(_why_not(group))
        elif table.rows or lag is None:
            report.items += [*_notes(group), *_notes_on_lag(lags.get(group_id) if table.rows else None)]
            # Kafka's tool shows the headings of no members, but not those of no offsets.
            report.items += [table] if table.rows or view == "members" else []
    return report


def descriptions(admin: Admin, group_ids: Collection[str] | None) -> dict[str, GroupDescription]:
    """The groups, sorted by id."""
    return _sorted(admin.describe_groups(_ids(admin, group_ids)), group_ids)


def _ids(admin: Admin, group_ids: Collection[str] | None) -> Collection[str]:
    return [group.group_id for group in admin.list_groups()] if group_ids is None else group_ids


def _sorted(
    groups: Mapping[str, GroupDescription], group_ids: Collection[str] | None
) -> dict[str, GroupDescription]:
    """In order. Of all groups one that has gone since they were listed is not missed."""
    return {
        group_id: group
        for group_id, group in sorted(groups.items())
        if group_ids is not None or not isinstance(group.error, GroupIdNotFoundError)
    }


def _why_not(group: GroupDescription) -> str:
    if isinstance(group.error, GroupIdNotFoundError):
        return f"Consumer group '{group.group_id}' does not exist."
    return f"Consumer group '{group.group_id}' cannot be described: {message_of(group.error)}"


def _notes(group: GroupDescription) -> list[Note]:
    if group.group_state == GroupState.EMPTY:
        return [Note(f"Consumer group '{group.group_id}' has no active members.")]
    if group.group_state in _REBALANCING:
        return [Note(f"warning: Consumer group '{group.group_id}' is rebalancing.")]
    return []


def _measured_lags(
    admin: Admin, group_ids: Collection[str] | None
) -> tuple[dict[str, Measurement], list[Note]]:
    """What there is besides the lag in records. Without it the groups are shown as Kafka's tool does."""
    if not isinstance(admin, AdminClient):
        return {}, []
    try:
        return admin.measured_lag(group_ids), []
    except KafkaError as error:
        return {}, [Note(f"warning: The lag in seconds cannot be read: {message_of(error)}")]


def _notes_on_lag(measurement: Measurement | None) -> list[Note]:
    if measurement is None:
        return []
    at = datetime.fromtimestamp(measurement.measured_timestamp_ms / 1_000, UTC)
    least = "; its oldest records may be older" if measurement.at_least else ""
    return [
        Note(
            f"Lag of consumer group '{measurement.group_id}' as of {at:%H:%M:%S} UTC: "
            f"{measurement.trend_in_words}{least}."
        )
    ]


# -- delete ----------------------------------------------------------------------------------------------


def delete(admin: AdminClient, group_ids: Collection[str] | None, reason: str | None = None) -> Report:
    """`--delete`."""
    results = dict(sorted(admin.delete_groups(_ids(admin, group_ids), reason=reason).items()))
    rows: list[Row] = [(group_id, _status(error)) for group_id, error in results.items()]
    report = Report([Table((GROUP, _STATUS), rows, hidden=True)])
    for group_id, error in results.items():
        if error is not NoError:
            report.fail(f"Group '{group_id}' could not be deleted due to: {message_of(error)}")
    deleted = ", ".join(f"'{group_id}'" for group_id, error in results.items() if error is NoError)
    if not report.exit_code:
        report.items.append(Line(f"Deletion of requested consumer groups ({deleted}) was successful."))
    elif deleted:
        report.items.append(Line(f"These consumer groups were deleted successfully: {deleted}", apart=True))
    return report


def delete_offsets(
    admin: AdminClient, group_id: str, topics: Sequence[TopicArgument], reason: str | None = None
) -> Report:
    """`--delete-offsets`. A whole topic is what exists of it and what is committed, so it may be gone."""
    partitions, unknown = _partitions_of(admin, group_id, topics)
    problem = ""
    errors: dict[TopicPartition, type[KafkaError]] = {}
    try:
        errors = admin.delete_group_offsets(group_id, partitions, reason=reason)
    except (GroupIdNotFoundError, NonEmptyGroupError) as error:
        errors = dict.fromkeys(partitions, type(error))
        problem = message_of(type(error))
    if not problem and (unknown or any(error is not NoError for error in errors.values())):
        problem = "Encountered some partition-level error, see the follow-up details."
    rows: list[Row] = [
        *((topic, None, "Error: This server does not host this topic-partition.") for topic in unknown),
        *((each.topic, each.partition, _status(error)) for each, error in sorted(errors.items())),
    ]
    done = f"Request succeeded for deleting offsets from group {group_id}."
    return Report([Failure(problem) if problem else Line(done), Table((TOPIC, PARTITION, _STATUS), rows)])


def _partitions_of(
    admin: AdminClient, group_id: str, topics: Sequence[TopicArgument]
) -> tuple[set[TopicPartition], list[str]]:
    """The partitions that are meant, and the topics of which there are none."""
    whole = {topic for topic, numbers in topics if numbers is None}
    partitions = admin.partitions(whole)
    if whole:
        stored = admin.list_group_offsets([group_id], as_stored=True)[group_id]
        partitions |= {each for each in stored if each.topic in whole}
    unknown = sorted(whole - {partition.topic for partition in partitions})
    named = {TopicPartition(topic, number) for topic, numbers in topics for number in numbers or ()}
    return partitions | named, unknown


# -- remove members --------------------------------------------------------------------------------------


def remove_members(admin: AdminClient, group_id: str, members: Sequence[MemberToRemove]) -> Report:
    """`--remove-member`, which Kafka's tool does not have."""
    errors = admin.remove_group_members(group_id, members)
    rows: list[Row] = [(group_id, member_id, _status(error)) for member_id, error in errors.items()]
    report = Report()
    for member_id, error in errors.items():
        if error is not NoError:
            report.fail(f"Member '{member_id}' could not be removed due to: {message_of(error)}")
    report.items.append(Table((GROUP, Column("MEMBER", 15, grows=True), _STATUS), rows))
    return report


def _status(error: type[KafkaError]) -> str:
    return _SUCCESSFUL if error is NoError else f"Error: {message_of(error)}"
