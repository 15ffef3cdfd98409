"""The loop that reads commits, looks ends up, and shows the lags."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from group_coordinator.client.ask_offsets import ask_offsets
from group_coordinator.client.channel import WITHOUT_GROUP
from group_coordinator.client.log_offsets import LogOffsets
from group_coordinator.client.messages import message_of
from group_coordinator.lag.book import MOST_OTHERS, Book
from group_coordinator.lag.commits import Commits
from group_coordinator.lag.losses import Losses
from group_coordinator.lag.record_times import RecordTimes
from group_coordinator.lag.stamps import Stamps
from group_coordinator.lag.topic import LagTopic, measurements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from group_coordinator.jobs.signals import StopEvent
    from group_coordinator.lag.metrics import LagMetrics
    from group_coordinator.lag.settings import LagSettings

log = logging.getLogger(__name__)

_POLL_MS = 200
_AGAIN_S = 2.0
_PATIENCE_MS = 3_000
"""A broker that does not answer is waited for so long, and what the others have said counts."""
_CONSUMER_SETTINGS: dict[str, Any] = {
    **WITHOUT_GROUP,
    "auto_offset_reset": "earliest",
}


class _Measuring:
    """One connection to Kafka, with what it has read so far."""

    def __init__(
        self,
        settings: LagSettings,
        kafka_config: Mapping[str, Any],
        metrics: LagMetrics,
        topic: LagTopic,
    ) -> None:
        self._topic, self._writer = settings.topics_offsets, settings.writer
        self._chosen, self._has_said = settings.lag_groups, False
        self._metrics, self._lag_topic = metrics, topic
        self._interval_ms = settings.lag_interval_ms
        self._kafka_config = kafka_config
        self._stamps, self._losses, self._max_fetches = Stamps(), Losses(), settings.lag_max_fetches
        self._book = Book(
            settings.measures, settings.lag_max_partitions, settings.reads_committed, self._stamps.first
        )
        self._commits = Commits(self._book)

    def run(self, stop: StopEvent) -> None:
        """Measure until it is stopped. Raises a KafkaError."""
        with (
            closing(KafkaConsumer(**{**self._kafka_config, **_CONSUMER_SETTINGS})) as consumer,
            closing(LogOffsets(patience_ms=_PATIENCE_MS, **self._kafka_config)) as logs,
            closing(RecordTimes(self._kafka_config)) as times,
        ):
            unread = self._begin(consumer)
            while unread is None and not stop.wait(_AGAIN_S):
                self._metrics.moves()
                unread = self._begin(consumer)
            due_s = time.monotonic()
            while not stop.is_set():
                self._metrics.moves()
                for records in consumer.poll(timeout_ms=_POLL_MS).values():
                    for record in records:
                        self._commits.take(record)
                if unread:
                    unread = {each: end for each, end in unread.items() if _position(consumer, each) < end}
                elif time.monotonic() >= due_s:
                    due_s = time.monotonic() + self._interval_ms / 1_000
                    self._measure(logs, times)
                    if self._book.has_to_read_again:
                        self._book.read_again()
                        self._commits = Commits(self._book)
                        unread = self._begin(consumer)

    def _begin(self, consumer: KafkaConsumer) -> dict[TopicPartition, int] | None:
        """Begin with all commits that there are; returns where they end, or None without the topic."""
        numbers = consumer.partitions_for_topic(self._topic)
        if not numbers:
            self._metrics.has_problem(f"there is no topic {self._topic}: has {self._writer} run here?")
            return None
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        consumer.assign(partitions)
        begins, ends = (
            ask_offsets(consumer, dict.fromkeys(partitions, spec), _PATIENCE_MS)
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
        if away := [each for each in partitions if each not in begins or each not in ends]:
            log.warning(
                "commits in %d partitions of %s are read once they have a leader", len(away), self._topic
            )
        for each in away:
            consumer.seek_to_beginning(each)
        unread = {each: ends[each].offset for each in partitions if each not in away}
        for each in unread:
            consumer.seek(each, begins[each].offset)
        return unread

    def _measure(self, logs: LogOffsets, times: RecordTimes) -> None:
        began_s = time.monotonic()
        ends = logs.ends(self._book.partitions)
        ends_of_committed = logs.ends(self._book.partitions_of_committed, isolation_level="read_committed")
        topics = logs.find_topics(self._book.topics_with_ids)
        at_ms = round(time.time() * 1_000)
        groups = self._book.measure(at_ms, ends, ends_of_committed, topics)
        if wanted := self._stamps.wanted(groups, times.refused, self._max_fetches):
            self._stamps.take(times.ask(wanted))
        begins = logs.begins(self._losses.wanted(groups))
        groups = self._losses.applied(self._stamps.applied(groups, at_ms), begins, at_ms)
        if self._book.others and not self._has_said:
            self._has_said = True
            count = f"{self._book.others:,}{' or more' if self._book.others == MOST_OTHERS else ''}"
            log.warning("no group is measured: none of the %s that have committed is %s", count, self._chosen)
        self._metrics.measured(time.monotonic() - began_s, groups, len(self._book.left_out))
        self._lag_topic.put(measurements_of(groups, at_ms, self._interval_ms))


def _position(consumer: KafkaConsumer, partition: TopicPartition) -> int:
    """The offset to read next; -1 if a leader that has just changed does not tell in time."""
    position = consumer.position(partition, timeout_ms=_POLL_MS)
    return -1 if position is None else int(position)


def measure_lag(
    settings: LagSettings,
    kafka_config: Mapping[str, Any],
    metrics: LagMetrics,
    say: Callable[[str], None],
    stop: StopEvent,
) -> None:
    """Measure until `stop` is set. Kafka that is away is waited for."""
    say(f"measuring the lag of {settings.lag_groups}")
    problem = None
    with LagTopic(settings, kafka_config, metrics.wrote) as topic:
        while not stop.is_set():
            try:
                _Measuring(settings, kafka_config, metrics, topic).run(stop)
            except KafkaError as error:
                if message_of(error) != problem:
                    problem = message_of(error)
                    log.warning("lag is not measured: %s", problem)
                metrics.has_problem(message_of(error))
                metrics.moves()
                stop.wait(_AGAIN_S)
    say("measuring is stopping")
