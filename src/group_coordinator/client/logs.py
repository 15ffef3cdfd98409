"""The part of a consumer that has nothing to do with its group: questions about logs, and pauses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka import KafkaConsumer
from kafka.structs import OffsetAndTimestamp, TopicPartition


class LogQuestions:
    """The methods of kafka-python's KafkaConsumer that are about records and logs alone.

    Offsets are those of the next record to be read or written. Times are in ms. Methods raise a KafkaError,
    and KafkaTimeoutError after `timeout_ms`, by default `request_timeout_ms`.
    """

    _records: KafkaConsumer

    def topics(self) -> set[str]:
        """Return the names of all topics that the user may see. Asks the brokers each time."""
        topics: set[str] = self._records.topics()
        return topics

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions, none if it does not exist."""
        partitions: set[int] = self._records.partitions_for_topic(topic)
        return partitions

    def beginning_offsets(
        self, partitions: Collection[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record that is there, for each partition."""
        offsets: dict[TopicPartition, int] = self._records.beginning_offsets(partitions, timeout_ms)
        return offsets

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset of the next record to come, for each partition."""
        offsets: dict[TopicPartition, int] = self._records.end_offsets(partitions, timeout_ms)
        return offsets

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record that is not older than its partition's time, None if there is none."""
        found: dict[TopicPartition, OffsetAndTimestamp | None]
        found = self._records.offsets_for_times(timestamps, timeout_ms)
        return found

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the end that the last fetch has told of a partition that is owned; None before the first."""
        offset: int | None = self._records.highwater(partition)
        return offset

    def metrics(self, raw: bool = False) -> Any:  # noqa: FBT001, FBT002 - as in kafka-python
        """Return kafka-python's metrics of reading records, by group and name."""
        return self._records.metrics(raw)

    def bootstrap(self, timeout_ms: int | None = None, refresh: bool = False) -> Any:  # noqa: FBT001, FBT002 - as in kafka-python
        """Wait for a connection to the brokers, as kafka-python does."""
        return self._records.bootstrap(timeout_ms, refresh)

    def bootstrap_connected(self) -> bool:
        """Return whether the connection to the first broker is there, by which the others are found."""
        return bool(self._records.bootstrap_connected())

    def pause(self, *partitions: TopicPartition) -> None:
        """Have `poll` return nothing of `partitions`, until `resume` or another assignment."""
        self._records.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Have `poll` return records of `partitions` again."""
        self._records.resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        paused: set[TopicPartition] = self._records.paused()
        return paused
