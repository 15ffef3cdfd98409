"""The pictures of consumer groups, as the watcher reads them: topics and patterns of their members."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
from kafka import KafkaConsumer
from kafka.errors import KafkaError

from group_coordinator.client.ask_offsets import begins_of, ends_of
from group_coordinator.client.channel import WITHOUT_GROUP
from group_coordinator.client.foreign import Records
from group_coordinator.client.since import partitions_there
from group_coordinator.coordinator_state.newest import Newest
from group_coordinator.coordinator_state.responses import KnownPattern, KnownTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka import TopicPartition

    from group_coordinator.streaming.watching.patterns import PatternWatch
    from group_coordinator.streaming.watching.watch import Watch

_log = logging.getLogger(__name__)

_TRY_MS = 5_000
_WAIT_MS = 5_000
"""The broker answers a fetch of nothing once in that time. Pictures that come end the wait."""
_OF_CONSUMERS = "consumer"


class _Picture(msgspec.Struct):
    """As much of a `GroupPicture` as says what a group knows of topics. The members are skipped."""

    group_id: str
    group_type: str = "classic"
    metadata_version: int = 0
    topics: list[KnownTopic] = []
    patterns: list[KnownPattern] = []


class Pictures:
    """Reads the topic of groups from its beginning, and goes on. Raises a KafkaError.

    `client_config`: for kafka-python.
    """

    def __init__(self, topic: str, client_config: Mapping[str, Any]) -> None:
        self._topic = topic
        self._records = Records[_Picture](_Picture, "picture of a group")
        self._newest = Newest()
        self._consumer = KafkaConsumer(
            **{"bootstrap_timeout_ms": _TRY_MS, **client_config},
            **WITHOUT_GROUP,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_WAIT_MS,
        )
        try:
            self._unread = self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> dict[TopicPartition, int]:
        partitions = partitions_there(self._consumer, self._topic)
        begins, ends = (ask(self._consumer, partitions, _TRY_MS) for ask in (begins_of, ends_of))
        self._consumer.assign(partitions)
        for partition in partitions:
            self._consumer.seek(partition, begins[partition])
        return {partition: end for partition, end in ends.items() if begins[partition] < end}

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close(autocommit=False)

    def read(self, watch: Watch, patterns: PatternWatch, timeout_ms: int) -> bool:
        """Give both what comes in that time. Returns whether all has been read that was there at first."""
        try:
            by_partition = self._consumer.poll(timeout_ms=timeout_ms)
        except KafkaError as error:
            if not error.retriable:
                raise
            _log.debug("topic %s cannot be read, trying again: %s", self._topic, error)
            by_partition = {}
        for records in by_partition.values():
            for record in records:
                self._take(watch, patterns, record)
        if self._unread:
            self._unread = {
                partition: end
                for partition, end in self._unread.items()
                if self._consumer.position(partition) < end
            }
        return not self._unread

    def _take(self, watch: Watch, patterns: PatternWatch, record: Any) -> None:
        if not self._newest.take(record.key, record.headers) or record.key is None:
            return
        picture = None
        if record.value is not None:
            picture = self._records.read(record)
            if picture is None or picture.group_id.encode() != record.key:
                # No record of the coordinator's: what was known before holds.
                return
        if picture is not None and picture.group_type == _OF_CONSUMERS:
            watch.pictured(picture.group_id, picture.metadata_version, picture.topics)
            patterns.pictured(picture.group_id, picture.metadata_version, picture.patterns)
        else:
            for each in (watch, patterns):
                each.left(record.key.decode(errors="replace"))
