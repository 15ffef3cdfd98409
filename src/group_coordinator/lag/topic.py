"""Measurements, written to a topic in a thread of its own: measuring never waits for it."""

from __future__ import annotations

import logging
import threading
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self

import msgspec
from kafka import KafkaProducer
from kafka.errors import KafkaError, NoError, UnknownTopicOrPartitionError, for_code

from group_coordinator.client.channel import settings_of
from group_coordinator.client.lag_log import MeasuredPartition, MeasuredTopic, Measurement
from group_coordinator.client.messages import message_of
from group_coordinator.jobs.connection import UnreachableError, admin_client
from group_coordinator.jobs.new_topics import NoTopicError, make_topics
from group_coordinator.jobs.producers import close_producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from group_coordinator.lag.book import GroupLag
    from group_coordinator.lag.settings import LagSettings

log = logging.getLogger(__name__)

_HOUR_MS = 3_600_000
_CONFIGS = {
    "cleanup.policy": "delete",
    # Longer than anybody draws it, and than a job that writes the history may stand still.
    "retention.ms": str(24 * _HOUR_MS),
    # Kafka deletes whole segments, and the default ones are of a week.
    "segment.ms": str(_HOUR_MS),
    # A group with tens of thousands of partitions is one record.
    "max.message.bytes": str(8 << 20),
}
_DELIVERY_MS = 10_000
_FLUSH_S = 15.0
_END_S = 5.0
_PRODUCER_SETTINGS: dict[str, Any] = {
    # A measurement that is written twice by a retry is the same one.
    "enable_idempotence": False,
    "acks": "all",
    "allow_auto_create_topics": False,
    # Names and figures of many groups are alike.
    "compression_type": "gzip",
    "batch_size": 256 << 10,
    "linger_ms": 20,
    "max_request_size": 8 << 20,
    "request_timeout_ms": _DELIVERY_MS - 500,
    "delivery_timeout_ms": _DELIVERY_MS,
    "max_block_ms": _DELIVERY_MS,
}


def measurements_of(groups: Iterable[GroupLag], at_ms: int, interval_ms: int) -> list[Measurement]:
    """The measurements of all groups that have partitions with a log."""
    return [_measurement(group, at_ms, interval_ms) for group in groups if group.partitions]


def _measurement(group: GroupLag, at_ms: int, interval_ms: int) -> Measurement:
    oldest = max(group.partitions, key=lambda each: each.age_ms)
    by_topic = groupby(group.partitions, key=lambda each: each.partition.topic)
    return Measurement(
        group_id=group.group_id,
        measured_timestamp_ms=at_ms,
        interval_ms=interval_ms,
        records=group.records,
        age_ms=oldest.age_ms,
        error_ms=oldest.error_ms,
        at_least=any(each.is_at_least for each in group.partitions),
        trend=group.trend.direction.value,
        clear_in_ms=group.trend.clear_in_ms,
        lost_records=group.lost,
        lost_in_ms=group.lost_in_ms,
        topics=[
            MeasuredTopic(
                topic,
                [
                    MeasuredPartition(
                        partition_index=each.partition.partition,
                        committed_offset=each.committed,
                        log_end_offset=each.end,
                        age_ms=each.age_ms,
                        error_ms=each.error_ms,
                        at_least=each.is_at_least,
                        status=each.status.value,
                        age_by="record" if each.is_by_record else "ends",
                        log_start_offset=None if each.begin < 0 else each.begin,
                        lost_in_ms=each.lost_in_ms,
                    )
                    for each in of_topic
                ],
            )
            for topic, of_topic in by_topic
        ],
    )


class LagTopic:
    """Writes while the context is open. If Kafka takes nothing, a newer measurement replaces one that waits.

    `count` is told how many records were written and how many were lost. With `create.topics` the topic is
    made if it is missing. Without it, and while it cannot be written to, a log line says so once.
    """

    def __init__(
        self, settings: LagSettings, kafka_config: Mapping[str, Any], count: Callable[[int, int], None]
    ) -> None:
        self._settings, self._kafka_config, self._count = settings, kafka_config, count
        self._topic = settings.topics_lag
        self._news = threading.Condition()
        self._waiting: list[Measurement] = []
        self._superseded = 0
        self._is_closed = False
        self._producer: KafkaProducer | None = None
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="lag-topic", daemon=True)

    def __enter__(self) -> Self:
        if self._topic:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._news:
            self._is_closed = True
            self._news.notify()
        if self._topic:
            self._thread.join(_END_S)

    def put(self, measurements: list[Measurement]) -> None:
        """Have a measurement written; returns at once."""
        if not self._topic:
            return
        with self._news:
            self._superseded += len(self._waiting)
            self._waiting = measurements
            self._news.notify()

    def _take(self) -> tuple[list[Measurement], int]:
        """Wait for the next measurement, none at the end; and how many were superseded before it."""
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._is_closed)
            taken, superseded = self._waiting, self._superseded
            self._waiting, self._superseded = [], 0
            return taken, superseded

    def _run(self) -> None:
        while True:
            measurements, superseded = self._take()
            if not measurements:
                break
            written, problem = 0, None
            try:
                written, problem = self._write(measurements)
            except (KafkaError, UnreachableError, NoTopicError, OSError, ValueError) as error:
                # The last two are about files and settings of TLS and logins.
                problem = message_of(error) if isinstance(error, KafkaError) else str(error)
            self._count(written, superseded + len(measurements) - written)
            self._have_problem(problem)
        if self._producer is not None:
            close_producer(self._producer)

    def _have_problem(self, problem: str | None) -> None:
        if problem is None and self._problem is not None:
            log.info("lag is written to topic %s again", self._topic)
        elif problem != self._problem:
            log.warning("lag is not written to topic %s: %s", self._topic, problem)
        self._problem = problem

    def _write(self, measurements: list[Measurement]) -> tuple[int, str | None]:
        """Write them; returns how many, and why not all."""
        if self._producer is None:
            self._prepare()
            self._producer = KafkaProducer(
                **settings_of(KafkaProducer, self._kafka_config) | _PRODUCER_SETTINGS
            )
        futures = [
            self._producer.send(
                self._topic,
                msgspec.json.encode(each),
                each.group_id.encode(),
                timestamp_ms=each.measured_timestamp_ms,
            )
            for each in measurements
        ]
        self._producer.flush(_FLUSH_S)
        problems = [each.exception for each in futures if each.failed()]
        if problems:
            # The topic may be gone. The next one looks, and makes it again if it is to.
            close_producer(self._producer)
            self._producer = None
        return len(futures) - len(problems), message_of(problems[0]) if problems else None

    def _prepare(self) -> None:
        """Look whether the topic is there. Raises `NoTopicError`, or a KafkaError."""
        with admin_client(self._kafka_config) as admin:
            (described,) = admin.describe_topics([self._topic])
            error = for_code(described["error_code"])
            if error is NoError:
                return
            if error is not UnknownTopicOrPartitionError:
                raise error
            if not self._settings.create_topics:
                raise NoTopicError("it is not there. Create it, or start with --create-topics")
            wanted = {self._topic: (self._settings.requests_partitions, _CONFIGS)}
            make_topics(admin, wanted, self._settings.replication_factor)
