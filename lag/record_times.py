"""The timestamps of records at given offsets, by one small fetch each."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaError, TopicAuthorizationFailedError, UnsupportedCodecError
from kafka.structs import TopicPartition

from group_coordinator.client.channel import WITHOUT_GROUP
from group_coordinator.client.messages import message_of

__all__ = ["RecordTimes"]

log = logging.getLogger(__name__)

_MOST_S = 2.0
"""A measurement waits no longer for all of them."""
_POLL_MS = 100
_SETTINGS: dict[str, Any] = {
    **WITHOUT_GROUP,
    # Retention may have deleted the record, and then the oldest one counts.
    "auto_offset_reset": "earliest",
    # A broker sends one batch of records at least.
    "max_partition_fetch_bytes": 1,
    "max_poll_records": 1,
}


class RecordTimes:
    """Fetches records of which only the timestamp is of interest. `kafka_config`: kafka-python's settings."""

    def __init__(self, kafka_config: Mapping[str, Any]) -> None:
        self._consumer = KafkaConsumer(**{**kafka_config, **_SETTINGS})
        self.refused: set[str] = set()
        """Topics that cannot be read: the right to is missing, or what decompresses them."""

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close(autocommit=False)

    def ask(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The time of the first record at or after an offset, in ms; -1 if it has none.

        Partitions that do not answer in time are left out.
        """
        found: dict[TopicPartition, int] = {}
        deadline_s = time.monotonic() + _MOST_S
        # One topic at a time: an error of one does not spoil the others.
        for topic, of_topic in groupby(sorted(wanted), key=lambda each: each.topic):
            partitions = list(of_topic)
            try:
                found |= self._of({each: wanted[each] for each in partitions}, deadline_s)
            except (TopicAuthorizationFailedError, UnsupportedCodecError) as error:
                self.refused.add(topic)
                log.info("ages in topic %s are found by its ends: %s", topic, message_of(error))
            except KafkaError as error:
                log.debug("records of topic %s cannot be asked for: %s", topic, message_of(error))
        self._consumer.unsubscribe()
        return found

    def _of(self, wanted: Mapping[TopicPartition, int], deadline_s: float) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        self._consumer.assign(list(wanted))
        for partition, offset in wanted.items():
            self._consumer.seek(partition, offset)
        while len(found) < len(wanted) and time.monotonic() < deadline_s:
            for partition, records in self._consumer.poll(timeout_ms=_POLL_MS).items():
                found.setdefault(partition, records[0].timestamp)
                self._consumer.pause(partition)
        return found
