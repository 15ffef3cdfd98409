"""The progress of groups: the committed offset of each partition, and the rest of its log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kafka.admin import OffsetSpec
from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

from group_coordinator.client.descriptions import GroupDescription, MemberDescription
from group_coordinator.client.work import WorkUnits, natural


@dataclass(frozen=True)
class Progress:
    """A group's progress in one partition, which somebody owns or of which something is committed.

    `log_end`: the next offset that will be written; None if there is no log, as of units of work.
    """

    partition: TopicPartition
    committed: OffsetAndMetadata | None
    log_end: int | None
    owner: MemberDescription | None

    @property
    def offset(self) -> int | None:
        """The offset that is committed. As for Kafka, a negative one means that nothing is."""
        return self.committed.offset if self.committed is not None and self.committed.offset >= 0 else None

    @property
    def lag(self) -> int | None:
        """The number of records that are left; None if it is not known."""
        if self.offset is None or self.log_end is None:
            return None
        return self.log_end - self.offset


Committed = Mapping[TopicPartition, OffsetAndMetadata]


def has_logs(group: GroupDescription) -> bool:
    """Whether what the group shares are partitions of topics. Units of work have no log, and may be many."""
    return group.protocol_type != WorkUnits.protocol_type


class AsksLogs(Protocol):
    """A client that can be asked for the ends of logs, as `LogOffsets` is."""

    def list_partition_offsets(
        self, topic_partition_specs: Mapping[TopicPartition, int], /
    ) -> Mapping[TopicPartition, OffsetAndTimestamp]:
        """Offsets by partition. Partitions without a log are left out."""


def measured(
    admin: AsksLogs, groups: Mapping[str, tuple[GroupDescription, Committed]]
) -> dict[str, list[Progress]]:
    """The progress of groups (see `AdminClient.describe_groups_and_offsets`), by group id.

    Looks up the ends of logs, once for all groups. Raises a KafkaError.
    """
    with_logs = [(group, committed) for group, committed in groups.values() if has_logs(group)]
    partitions = {
        partition
        for group, committed in with_logs
        for partition in (*committed, *(partition for partition, _ in _owned(group)))
    }
    ends = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    log_ends = {partition: end.offset for partition, end in ends.items()}
    return {
        group_id: progress_of(group, committed, log_ends if has_logs(group) else {})
        for group_id, (group, committed) in groups.items()
    }


def progress_of(
    group: GroupDescription, committed: Committed, log_ends: Mapping[TopicPartition, int]
) -> list[Progress]:
    """The progress of one group: what members own, the biggest owner first, and then what nobody owns."""
    owned = _owned(group)
    unowned = _in_order(group, committed.keys() - {partition for partition, _ in owned})
    return [
        Progress(partition, committed.get(partition), log_ends.get(partition), owner)
        for partition, owner in [*owned, *((partition, None) for partition in unowned)]
    ]


def _owned(group: GroupDescription) -> list[tuple[TopicPartition, MemberDescription]]:
    owners = sorted(group.members, key=lambda member: len(member.topic_partitions or ()), reverse=True)
    return [(each, owner) for owner in owners for each in _in_order(group, owner.topic_partitions or ())]


def _in_order(group: GroupDescription, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Units in their natural order; topics by their text, as Kafka's tool sorts them."""
    if has_logs(group):
        return sorted(partitions)
    return sorted(partitions, key=lambda unit: natural(unit.topic))
