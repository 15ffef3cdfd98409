"""Begin and end of partitions' logs, and the offsets in them to reset to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import OffsetSpec, OffsetTimestamp
from kafka.structs import OffsetAndTimestamp, TopicPartition

from group_coordinator.client.ask_offsets import ask_offsets, leaders_of, topics_of
from group_coordinator.client.channel import settings_of
from group_coordinator.client.closing import Closing
from group_coordinator.client.topic_ids import found_in
from group_coordinator.coordinator_state.offsets.still_there import Found

_PATIENCE_MS = 10_000
_UNKNOWN_OFFSET = -1
"""The broker's answer if no record is so young (ListOffsetsResponse.UNKNOWN_OFFSET)."""


class Log(NamedTuple):
    """Begin and end of a partition's log. The end is the offset after its last record.

    `found` is the offset that was looked for there, -1 if there is none, None if none was looked for.
    """

    begin: int
    end: int
    found: int | None = None


class ResetTarget(NamedTuple):
    """An offset to begin from again. `warning`: why it is not the one that was asked for, or ""."""

    offset: int
    warning: str = ""


class LogOffsets(Closing):
    """Asks brokers about the logs of many partitions at once. `kafka_config`: kafka-python's settings.

    It connects when it is first asked.

    Answers leave out partitions without a leader, and those of a broker that does not answer for
    `patience_ms`. They leave out topics that do not exist or that this program may not see.
    """

    def __init__(self, *, patience_ms: float = _PATIENCE_MS, **kafka_config: Any) -> None:
        self._patience_ms = patience_ms
        self._admin_config = settings_of(KafkaAdminClient, kafka_config)
        self._admin: KafkaAdminClient | None = None

    def close(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            self._admin.close()

    def _connected(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = KafkaAdminClient(**self._admin_config)
        return self._admin

    def partitions(self, topics: Collection[str]) -> set[TopicPartition]:
        """The partitions of the topics that have a leader."""
        return set(leaders_of(self._connected(), topics, self._patience_ms)) if topics else set()

    def find_topics(self, topics: Collection[str]) -> dict[str, Found]:
        """Look topics up, by name; without those that Kafka cannot tell of."""
        return found_in(topics_of(self._connected(), topics, self._patience_ms)) if topics else {}

    def list_partition_offsets(
        self, topic_partition_specs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Look offsets up; the specs are kafka-python's OffsetSpec, or timestamps in ms.

        For a timestamp it is the first offset that is not older, or -1. Partitions without a log are left
        out, where kafka-python raises.
        """
        return ask_offsets(self._connected(), topic_partition_specs, self._patience_ms)

    def ends(
        self, partitions: Collection[TopicPartition], isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """Look up where logs end, with `read_committed` before the first transaction that is open."""
        specs = dict.fromkeys(partitions, OffsetSpec.LATEST)
        found = ask_offsets(self._connected(), specs, self._patience_ms, isolation_level)
        return {partition: each.offset for partition, each in found.items()}

    def begins(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Look up where logs begin: what retention has left."""
        found = self.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
        return {partition: each.offset for partition, each in found.items()}

    def logs(self, offset_specs: Mapping[TopicPartition, int]) -> dict[TopicPartition, Log]:
        """Look up what `reset_target` has to know to reset each partition as its spec says."""
        begins = self.begins(offset_specs)
        ends = self.list_partition_offsets(dict.fromkeys(offset_specs, OffsetSpec.LATEST))
        to_find = {p: it for p, it in offset_specs.items() if isinstance(it, OffsetSpec | OffsetTimestamp)}
        found = self.list_partition_offsets(to_find)
        return {
            partition: Log(
                begins[partition],
                ends[partition].offset,
                found[partition].offset if partition in to_find else None,
            )
            for partition in offset_specs
            if partition in begins and partition in ends and (partition in found or partition not in to_find)
        }


def reset_target(partition: TopicPartition, spec: int, log: Log) -> ResetTarget:
    """The offset to reset a partition to, within its log.

    `spec` is an OffsetSpec or an OffsetTimestamp of kafka-python, or an offset. After the last record is the
    end of the log, and so is all that is beyond it. The warnings are Kafka's (OffsetsUtils.java).
    """
    if log.found == _UNKNOWN_OFFSET:
        where = f"Partition {partition.partition} from topic {partition.topic}"
        return ResetTarget(log.end, f"{where} is empty. Falling back to latest known offset.")
    offset = spec if log.found is None else log.found
    where = f"for topic partition {partition.topic}-{partition.partition}. Value will be set to"
    if offset > log.end:
        return ResetTarget(log.end, f"New offset ({offset}) is higher than latest offset {where} {log.end}")
    if offset < log.begin:
        return ResetTarget(
            log.begin, f"New offset ({offset}) is lower than earliest offset {where} {log.begin}"
        )
    return ResetTarget(offset)
