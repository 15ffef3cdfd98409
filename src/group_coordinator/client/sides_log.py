"""`coordinator.sides`, read from its beginning, and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import msgspec
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError, for_code
from kafka.structs import TopicPartition

from group_coordinator.client.ask_offsets import begins_of, ends_of, topics_of
from group_coordinator.client.channel import WITHOUT_GROUP, settings_of
from group_coordinator.client.closing import Closing
from group_coordinator.client.foreign import Records
from group_coordinator.client.since import records_to
from group_coordinator.coordinator_state.sides import SideRecord

_POLL_MS = 500
_ABSENT = (UnknownTopicOrPartitionError, TopicAuthorizationFailedError)


class SidesLog(Closing):
    """The newest record of each group. For use by one thread at a time. Methods raise a KafkaError."""

    def __init__(self, topic: str, kafka_config: Mapping[str, Any], timeout_ms: int = 30_000) -> None:
        self.topic, self._timeout_ms = topic, timeout_ms
        self._config = kafka_config
        self._read = Records[SideRecord](SideRecord, "record of a group's side")
        self._consumer = KafkaConsumer(
            **settings_of(KafkaConsumer, kafka_config) | WITHOUT_GROUP | {"auto_offset_reset": "earliest"}
        )
        self._producer: KafkaProducer | None = None
        self._newest: dict[str, SideRecord] = {}
        """As far as has been read."""

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close(autocommit=False)
        if self._producer is not None:
            self._producer.close(timeout=_POLL_MS / 1_000)

    def find(self) -> bool:
        """Look for the topic; returns whether it is there to be read, before anything else."""
        if not self._consumer.assignment():
            (topic,) = topics_of(self._consumer, [self.topic], self._timeout_ms)
            error = for_code(topic["error_code"])
            if error in _ABSENT:
                return False
            if topic["error_code"]:
                # To take a topic that cannot be seen just now for one that is not there would be wrong.
                raise error(f"topic {self.topic!r}")
            partitions = [TopicPartition(self.topic, each["partition_index"]) for each in topic["partitions"]]
            self._consumer.assign(partitions)
            for each, begin in begins_of(self._consumer, partitions, self._timeout_ms).items():
                self._consumer.seek(each, begin)
        return True

    def poll(self, timeout_ms: int = _POLL_MS) -> dict[str, SideRecord | None]:
        """Read on; returns the newest records of groups that have others now, None for one that has none."""
        return self._take(chain.from_iterable(self._consumer.poll(timeout_ms=timeout_ms).values()))

    def _take(self, records: Iterable[Any]) -> dict[str, SideRecord | None]:
        changes: dict[str, SideRecord | None] = {}
        for each in records:
            if each.key is None:
                continue
            group_id = each.key.decode(errors="replace")
            if each.value is None:
                self._newest.pop(group_id, None)
                changes[group_id] = None
            elif (record := self._read.read(each)) is not None:
                self._newest[group_id] = changes[group_id] = record
        return changes

    def read_all(self) -> dict[str, SideRecord]:
        """Read up to where the topic ends now; returns the newest record of each group."""
        ends = ends_of(self._consumer, self._consumer.assignment(), self._timeout_ms)
        self._take(records_to(self._consumer, ends, self._timeout_ms))
        # A copy, which another thread may have while this one reads on.
        return dict(self._newest)

    def append(self, record: SideRecord) -> None:
        """Write a record, and wait until all replicas have it."""
        if self._producer is None:
            self._producer = KafkaProducer(**settings_of(KafkaProducer, self._config) | {"acks": "all"})
        value = msgspec.json.encode(record)
        sent = self._producer.send(self.topic, key=record.group_id.encode(), value=value)
        sent.get(timeout=self._timeout_ms / 1_000)
