"""The timestamps of records at given offsets, by one small fetch each."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaError, TopicAuthorizationFailedError, UnsupportedCodecError

from group_coordinator.client.channel import WITHOUT_GROUP
from group_coordinator.client.messages import message_of
from group_coordinator.lag.book import Place
from group_coordinator.lag.stamps import Seen, Wanted

log = logging.getLogger(__name__)

_MOST_S = 2.0
"""A measurement waits no longer for all of them."""
_POLL_MS = 100
_REFUSED_S = 300.0
"""A topic that cannot be read is tried again so much later."""
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

    def __init__(self, kafka_config: Mapping[str, Any], now_s: Callable[[], float] = time.monotonic) -> None:
        self._config, self._now_s = kafka_config, now_s
        self._consumers: dict[bool, KafkaConsumer] = {}
        """By whether they read only records of committed transactions, once they are needed."""
        self._refused: dict[str, float] = {}
        """Until when a topic is not tried again."""

    def close(self) -> None:
        """Disconnect."""
        for consumer in self._consumers.values():
            consumer.close(autocommit=False)

    @property
    def refused(self) -> set[str]:
        """Topics that cannot be read: the right to is missing, or what decompresses them.

        They are tried again after some minutes.
        """
        now_s = self._now_s()
        return {topic for topic, until_s in self._refused.items() if until_s > now_s}

    def ask(self, wanted: Mapping[Place, Wanted]) -> dict[Place, Seen]:
        """Look for the first record in each part of a log.

        Partitions that do not answer in time are left out. Of a part without records it may take several
        questions to come to the end.
        """
        found: dict[Place, Seen] = {}
        deadline_s = time.monotonic() + _MOST_S
        # One topic at a time: an error of one does not spoil the others.
        for (topic, reads_committed), places in groupby(sorted(wanted, key=_topic), key=_topic):
            try:
                consumer = self._consumer(reads_committed=reads_committed)
                found |= _of(consumer, {each: wanted[each] for each in places}, deadline_s)
            except (TopicAuthorizationFailedError, UnsupportedCodecError) as error:
                self._refused[topic] = self._now_s() + _REFUSED_S
                log.info("ages in topic %s are found by its ends: %s", topic, message_of(error))
            except KafkaError as error:
                log.debug("records of topic %s cannot be asked for: %s", topic, message_of(error))
        for consumer in self._consumers.values():
            consumer.unsubscribe()
        return found

    def _consumer(self, *, reads_committed: bool) -> KafkaConsumer:
        if reads_committed not in self._consumers:
            level = {"isolation_level": "read_committed" if reads_committed else "read_uncommitted"}
            self._consumers[reads_committed] = KafkaConsumer(**{**self._config, **_SETTINGS, **level})
        return self._consumers[reads_committed]


def _topic(place: Place) -> tuple[str, bool]:
    return place[0].topic, place[2]


def _of(consumer: KafkaConsumer, wanted: Mapping[Place, Wanted], deadline_s: float) -> dict[Place, Seen]:
    found: dict[Place, Seen] = {}
    left = {place[0]: place for place in wanted}
    consumer.assign([*left])
    for partition, place in left.items():
        consumer.seek(partition, wanted[place].first)
    while left and time.monotonic() < deadline_s:
        for partition, records in consumer.poll(timeout_ms=_POLL_MS).items():
            found[left.pop(partition)] = Seen(records[0].offset, records[0].timestamp)
            consumer.pause(partition)
        for partition, place in [*left.items()]:
            # The consumer goes past what is no record, or what a broker keeps from it.
            position = consumer.position(partition, timeout_ms=_POLL_MS)
            if position is not None and position > wanted[place].first:
                found[place] = Seen(position, None)
                if position >= wanted[place].end:
                    del left[partition]
                    consumer.pause(partition)
    return found
