"""The groups at the brokers: `observe` has pictures of them, and their brokers are asked for offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.closing import Closing
from group_coordinator.client.descriptions import GroupDescription, pictured
from group_coordinator.page.memory import Listed, Memory


class GroupsAtBrokers(Closing):
    """Answers what `AdminClient` answers about groups of the coordinator, as far as lag needs it.

    `memory`: the groups as they are known now. `kafka_config`: kafka-python's settings. Raises a KafkaError.
    """

    def __init__(self, memory: Callable[[], Memory], **kafka_config: Any) -> None:
        self._memory = memory
        self._admin = BrokersAdmin(**kafka_config)

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    def list_groups(self) -> list[Listed]:
        """All groups."""
        return self._memory().groups()

    def describe_groups_and_offsets(
        self, group_ids: Collection[str]
    ) -> dict[str, tuple[GroupDescription, dict[TopicPartition, OffsetAndMetadata]]]:
        """Groups that are there, with what is committed."""
        memory = self._memory()
        pictures = [picture for each in group_ids if (picture := memory.picture(each)) is not None]
        offsets = self._admin.list_group_offsets([each.group_id for each in pictures])
        return {each.group_id: (pictured(each), offsets[each.group_id]) for each in pictures}

    def list_partition_offsets(
        self, specs: Mapping[TopicPartition, int], /
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """See `LogOffsets`."""
        return self._admin.list_partition_offsets(specs)
