"""The tables of `--list` and `--describe`, from what an `AdminClient` says.

Which rows there are, and in which order, is as in ConsumerGroupCommand.java (collectGroupsOffsets,
collectGroupsMembers, collectGroupsState) of Apache Kafka 4.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from kafka.structs import TopicPartition

from group_coordinator.client.descriptions import Coordinator, GroupDescription
from group_coordinator.client.groups_log import GroupListing
from group_coordinator.client.lag_log import Measurement
from group_coordinator.client.progress import Progress
from group_coordinator.commands.tables import Cell, Column, Row, Table

GROUP = Column("GROUP", 15, grows=True)
TOPIC = Column("TOPIC", 15, grows=True)
PARTITION = Column("PARTITION", 10)
_CONSUMER_ID = Column("CONSUMER-ID", 15, grows=True)
_HOST = Column("HOST", 15, grows=True)

_LISTED = GROUP._replace(margin=10)
_TYPE = Column("TYPE", 20)
_LISTED_STATE = Column("STATE", 20)
_PROGRESS = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("LEADER-EPOCH", 15, verbose=True),
    Column("CURRENT-OFFSET", 15),
    Column("LOG-END-OFFSET", 15),
    Column("LAG", 15),
)
_OWNER = (_CONSUMER_ID, _HOST, Column("CLIENT-ID"))
# Kafka's tool has none of these. They are there where `measure-lag` runs.
_MEASURED = (
    Column("LAG-SECONDS", 12, optional=True),
    Column("LAG-AT-LEAST", for_programs=True),
    Column("STATUS", 10, optional=True),
    Column("TREND", for_programs=True),
    Column("CLEAR-IN-SECONDS", for_programs=True),
    Column("LOST-RECORDS", for_programs=True),
    Column("LOST-IN-SECONDS", for_programs=True),
)
_MEMBERS = (
    GROUP,
    _CONSUMER_ID,
    Column("GROUP-INSTANCE-ID", 17, grows=True, optional=True),
    _HOST,
    Column("CLIENT-ID", 15, grows=True),
    Column("#PARTITIONS", 15),
    # Epochs and targets are the consumer protocol's: a group of the classic one has none.
    Column("CURRENT-EPOCH", 15, verbose=True),
    Column("CURRENT-ASSIGNMENT", 20, grows=True, verbose=True),
    Column("TARGET-EPOCH", 15, verbose=True),
    Column("TARGET-ASSIGNMENT", 20, verbose=True),
)
_STATE = (
    GROUP,
    Column("COORDINATOR (ID)", 25, grows=True),
    Column("ASSIGNMENT-STRATEGY", 20),
    Column("STATE", 20),
    Column("GROUP-EPOCH", 15, verbose=True),
    Column("TARGET-ASSIGNMENT-EPOCH", 25, verbose=True),
    Column("#MEMBERS"),
)


def group_list(groups: Sequence[GroupListing], *, with_state: bool = False, with_type: bool = False) -> Table:
    """`--list`: names, or with `--type` and `--state` a table."""
    columns = (_LISTED, *((_TYPE,) if with_type else ()), *((_LISTED_STATE,) if with_state else ()))
    rows: list[Row] = [
        (
            each.group_id,
            # Kafka's tool begins the name of a type with a capital letter, and its protocol does not.
            *((each.group_type.capitalize(),) if with_type else ()),
            *((each.group_state,) if with_state else ()),
        )
        for each in groups
    ]
    return Table(columns, rows, apart=False, bare=len(columns) == 1)


def offsets_table(
    group_id: str,
    progress: Iterable[Progress],
    *,
    lag: Callable[[Cell], bool] | None = None,
    verbose: bool = False,
    measurement: Measurement | None = None,
    is_measured: bool = False,
) -> Table:
    """`--describe --offsets`. `lag` chooses rows by their lag.

    `is_measured`: whether there are columns for the lag in seconds; `measurement`: that of this group.
    """
    rows = (
        (*left, *(_measured_cells(each, measurement) if is_measured else ()), *right)
        for each in progress
        if lag is None or lag(each.lag)
        for left, right in (_offset_row(group_id, each),)
    )
    columns = (*_PROGRESS, *(_MEASURED if is_measured else ()), *_OWNER)
    return Table.of(columns, rows, verbose=verbose)


def _measured_cells(progress: Progress, measurement: Measurement | None) -> Row:
    partition = None if measurement is None else measurement.partitions.get(progress.partition)
    if measurement is None or partition is None:
        return (None,) * len(_MEASURED)
    # It may have caught up since.
    seconds = 0 if progress.lag == 0 else round(partition.age_ms / 1_000)
    clear_in_s = None if measurement.clear_in_ms is None else round(measurement.clear_in_ms / 1_000)
    lost_in_s = None if partition.lost_in_ms is None else round(partition.lost_in_ms / 1_000)
    known = (measurement.trend, clear_in_s, partition.lost_records, lost_in_s)
    return (seconds, partition.at_least and seconds > 0, partition.status, *known)


def _offset_row(group_id: str, progress: Progress) -> tuple[Row, Row]:
    partition, committed, owner = progress.partition, progress.committed, progress.owner
    epoch = None if committed is None or committed.leader_epoch in (None, -1) else committed.leader_epoch
    figures = (epoch, progress.offset, progress.log_end, progress.lag)
    who: tuple[Cell, ...] = (owner.member_id, owner.client_host, owner.client_id) if owner else (None,) * 3
    return (group_id, partition.topic, partition.partition, *figures), who


def members_table(group: GroupDescription, *, verbose: bool = False) -> Table:
    """`--describe --members`."""
    rows = (
        (
            group.group_id,
            member.member_id,
            member.group_instance_id,
            member.client_host,
            member.client_id,
            None if member.topic_partitions is None else len(member.topic_partitions),
            member.member_epoch,
            None if member.topic_partitions is None else _by_topic(member.topic_partitions),
            group.assignment_epoch,
            None if member.target_partitions is None else _by_topic(member.target_partitions),
        )
        for member in group.members
    )
    return Table.of(_MEMBERS, rows, verbose=verbose)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    numbers = defaultdict(list)
    for partition in sorted(partitions):
        numbers[partition.topic].append(partition.partition)
    return dict(numbers)


def state_table(group: GroupDescription, coordinator: Coordinator, *, verbose: bool = False) -> Table:
    """`--describe --state`. A coordinator is two partitions here: of the requests, and (ID) of the state."""
    where = f"{coordinator.topic}:{coordinator.partition}  ({coordinator.state_partition})"
    assignor = group.protocol_data or None
    epochs = (None, None) if group.assignment_epoch is None else (group.generation_id, group.assignment_epoch)
    row = (group.group_id, where, assignor, group.group_state, *epochs, len(group.members))
    return Table.of(_STATE, [row], verbose=verbose)
