"""The tables of `--list` and `--describe`, from what an `AdminClient` says.

Which rows there are, and in which order, is as in ConsumerGroupCommand.java (collectGroupsOffsets,
collectGroupsMembers, collectGroupsState) of Apache Kafka 4.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.descriptions import Coordinator, GroupDescription, MemberDescription
from group_coordinator.client.groups_log import GroupListing
from group_coordinator.client.work import WorkUnits, natural
from group_coordinator.commands.groups.output import Cell, Column, Row, Table

__all__ = ["GROUP", "PARTITION", "TOPIC", "group_list", "members_table", "offsets_table", "state_table"]

GROUP = Column("GROUP", 15, grows=True)
TOPIC = Column("TOPIC", 15, grows=True)
PARTITION = Column("PARTITION", 10)
_CONSUMER_ID = Column("CONSUMER-ID", 15, grows=True)
_HOST = Column("HOST", 15, grows=True)

_LIST = (GROUP._replace(margin=10), Column("STATE", 20))
_OFFSETS = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("LEADER-EPOCH", 15, verbose=True),
    Column("CURRENT-OFFSET", 15),
    Column("LOG-END-OFFSET", 15),
    Column("LAG", 15),
    _CONSUMER_ID,
    _HOST,
    Column("CLIENT-ID"),
)
_LAG = [column.heading for column in _OFFSETS].index("LAG")
_MEMBERS = (
    GROUP,
    _CONSUMER_ID,
    Column("GROUP-INSTANCE-ID", 17, grows=True, optional=True),
    _HOST,
    Column("CLIENT-ID", 15, grows=True),
    Column("#PARTITIONS", 15),
    # Epochs and targets are KIP-848's: a group of the classic protocol has none.
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


def group_list(groups: Sequence[GroupListing], *, with_state: bool) -> Table:
    """`--list`: names, or with `--state` a table."""
    if with_state:
        return Table(_LIST, [(each.group_id, each.group_state) for each in groups], apart=False)
    return Table(_LIST[:1], [(each.group_id,) for each in groups], apart=False, bare=True)


def offsets_table(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    log_ends: Mapping[TopicPartition, int],
    *,
    lag: Callable[[Cell], bool] | None = None,
    verbose: bool = False,
) -> Table:
    """`--describe --offsets`: what members own, who owns most first, and then what nobody owns.

    `log_ends` is without what has no log; `lag` chooses rows by their lag.
    """
    owners = sorted(group.members, key=lambda member: len(member.topic_partitions or ()), reverse=True)
    order = _by_unit if group.protocol_type == WorkUnits.protocol_type else None
    owned: list[tuple[TopicPartition, MemberDescription | None]] = [
        (partition, owner)
        for owner in owners
        for partition in sorted(owner.topic_partitions or (), key=order)
    ]
    unowned = sorted(committed.keys() - {partition for partition, _ in owned}, key=order)
    rows = (
        _offset_row(group.group_id, partition, committed.get(partition), log_ends.get(partition), owner)
        for partition, owner in [*owned, *((partition, None) for partition in unowned)]
    )
    return Table.of(_OFFSETS, (row for row in rows if lag is None or lag(row[_LAG])), verbose=verbose)


def _by_unit(unit: TopicPartition) -> Any:
    """Units in their natural order. Kafka's tool sorts topics by their text."""
    return natural(unit.topic), unit.partition


def _offset_row(
    group_id: str,
    partition: TopicPartition,
    committed: OffsetAndMetadata | None,
    log_end: int | None,
    owner: MemberDescription | None,
) -> Row:
    offset = epoch = lag = None
    if committed is not None:
        offset = committed.offset
        epoch = None if committed.leader_epoch in (None, -1) else committed.leader_epoch
        lag = None if log_end is None or offset == -1 else log_end - offset
    who: tuple[Cell, ...] = (owner.member_id, owner.client_host, owner.client_id) if owner else (None,) * 3
    return (group_id, partition.topic, partition.partition, epoch, offset, log_end, lag, *who)


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
            None,
            None if member.topic_partitions is None else _by_topic(member.topic_partitions),
            None,
            None,
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
    row = (group.group_id, where, assignor, group.group_state, None, None, len(group.members))
    return Table.of(_STATE, [row], verbose=verbose)
