"""An AdminClient without Kafka: the coordinator's core in memory, and logs that are no more than offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.admin import OffsetSpec
from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

from group_coordinator.client.admin import AdminClient
from group_coordinator.client.groups_log import GroupListing, chosen
from group_coordinator.client.lag_log import Measurement
from group_coordinator.client.log_offsets import LogOffsets
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.offsets.still_there import Found
from group_coordinator.coordinator_state.stored import decode_group
from tests.client.memory import MemoryChannel
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tests.client.memory import Coordinator

__all__ = ["MemoryAdmin"]

_NO_IDS: Mapping[str, str] = {}
FIRST_TIMESTAMP_MS = 1_700_000_000_000


class MemoryLogs(LogOffsets):
    """Logs that begin and end somewhere, with a record every second since 2023-11-14T22:13:20Z."""

    def __init__(self, logs: Mapping[TopicPartition, tuple[int, int]], topic_ids: Mapping[str, str]) -> None:
        self._logs, self._topic_ids = logs, topic_ids

    def partitions(self, topics: Collection[str]) -> set[TopicPartition]:
        return {partition for partition in self._logs if partition.topic in topics}

    def find_topics(self, topics: Collection[str]) -> dict[str, Found]:
        return {each: Found(len(self.partitions([each])), self._topic_ids.get(each, "")) for each in topics}

    def list_partition_offsets(
        self, specs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return {
            partition: OffsetAndTimestamp(self._found(spec, *self._logs[partition]), -1, None)
            for partition, spec in specs.items()
            if partition in self._logs
        }

    @staticmethod
    def _found(spec: int, begin: int, end: int) -> int:
        if spec == OffsetSpec.EARLIEST:
            return begin
        if spec == OffsetSpec.LATEST:
            return end
        offset = max(begin, -((FIRST_TIMESTAMP_MS - spec) // 1000))
        return offset if offset < end else -1


class MemoryAdmin(MemoryLogs, AdminClient):
    """`logs`: (topic, partition) -> where its log begins and ends. `topic_ids`: as Kafka has them now."""

    def __init__(
        self,
        coordinator: Coordinator,
        logs: Mapping[tuple[str, int], tuple[int, int]],
        client_id: str = "admin",
        topic_ids: Mapping[str, str] = _NO_IDS,
    ) -> None:
        MemoryLogs.__init__(self, {TopicPartition(*where): ends for where, ends in logs.items()}, topic_ids)
        AdminClient.__init__(
            self,
            client_id=client_id,
            channel=MemoryChannel(coordinator, client_id),
            request_timeout_ms=PATIENCE_S * 1000,
        )
        self.closes = 0
        self.lags: dict[str, Measurement] = {}
        self._coordinator = coordinator

    def close(self) -> None:
        """Stay open, for the next command."""
        self.closes += 1

    def list_groups(
        self,
        states_filter: Collection[str] | None = None,
        types_filter: Collection[str] | None = None,
    ) -> list[GroupListing]:
        groups = map(decode_group, self._coordinator.states.values())
        pictures = [group.picture(GroupConfig()) for group in groups if not group.is_dead]
        listed = [
            GroupListing(each.group_id, each.state, each.protocol_type or "", each.group_type)
            for each in pictures
        ]
        return sorted(chosen(listed, states_filter, types_filter), key=lambda each: each.group_id)

    def measured_lag(self, group_ids: Collection[str] | None = None) -> dict[str, Measurement]:
        return self.lags

    def commit(self, group_id: str, **topics: Mapping[int, int]) -> None:
        """Commit offsets, given as topic={partition: offset}."""
        offsets = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset)
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        }
        self.alter_group_offsets(group_id, offsets)

    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """What a group has committed."""
        return {tuple(p): each.offset for p, each in self.list_group_offsets([group_id])[group_id].items()}
