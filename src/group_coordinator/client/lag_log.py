"""Measurements of lag as `coordinator.lag` has them (docs/contract.md), and the newest of each group."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from typing import Annotated, Any

import msgspec
from kafka import KafkaConsumer
from kafka.errors import TopicAuthorizationFailedError
from kafka.structs import TopicPartition

from group_coordinator.client.ask_offsets import ends_of
from group_coordinator.client.channel import WITHOUT_GROUP, settings_of
from group_coordinator.client.closing import Closing
from group_coordinator.client.foreign import Records
from group_coordinator.client.since import offsets_since, partitions_of, records_to
from group_coordinator.coordinator_state.foreign import Ms

log = logging.getLogger(__name__)

MISSED = 4
"""Measurements that may be missing before the one before them is old."""
LOST_SOON_MS = 86_400_000
"""Records that retention will have deleted within this time are said to be lost soon."""
SLACK_MS = 10_000
"""Time for the measurement itself, its way through the log, and a difference of clocks."""
_LOOKS_BACK_MS = (60_000, 900_000)
"""How far back the newest is looked for: as far as the default interval needs, and else for longer ones. More
is never read, however many groups are measured."""


Offset = Annotated[int, msgspec.Meta(ge=0)]

STATUSES = ("ok", "lagging", "rewound", "stopped", "stalled")
"""The values of `status`, from the best to the worst."""


class MeasuredPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The lag in one partition. Times in ms.

    `age_ms`: how old the oldest record is that the group has not committed past, 0 if there is none.
    `error_ms`: by how much that may be wrong. `at_least`: it may be older, nobody knows how much. `age_by`:
    "record" if it is known by the record's own timestamp, "ends" if by the ends of the log over time.
    `log_start_offset`: the first offset that retention has left; None if it is not known, or no record is
    left to read. `lost_in_ms`: in how many ms retention will reach the committed offset, if it goes on so.
    """

    partition_index: int
    committed_offset: Offset
    log_end_offset: Offset
    age_ms: Ms
    error_ms: Ms
    at_least: bool
    status: str
    age_by: str = "ends"
    log_start_offset: Offset | None = None
    lost_in_ms: Ms | None = None

    @property
    def records(self) -> int:
        """The number of records that are left."""
        return max(0, self.log_end_offset - self.committed_offset)

    @property
    def lost_records(self) -> int:
        """The number of records that retention has deleted before the group had committed past them."""
        return max(0, (self.log_start_offset or 0) - self.committed_offset)


class MeasuredTopic(msgspec.Struct, frozen=True):
    """The partitions of a topic of which the group has committed something."""

    name: str
    partitions: list[MeasuredPartition]


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The lag of a group at `measured_timestamp_ms`; the next is due after `interval_ms`.

    `records` is the sum over its partitions. `age_ms`, `error_ms` and `at_least` are those of the partition
    with the oldest record. `trend`: growing, steady or clearing; if so, `clear_in_ms` says how soon.
    `lost_records`: records that retention has deleted before the group had committed past them. `lost_in_ms`:
    in how many ms it will delete some, if it goes on so; 0 if it has.
    """

    group_id: str
    measured_timestamp_ms: Ms
    interval_ms: Ms
    records: int
    age_ms: Ms
    error_ms: Ms
    at_least: bool
    trend: str
    clear_in_ms: int | None
    topics: list[MeasuredTopic]
    lost_records: Offset = 0
    lost_in_ms: Ms | None = None

    @property
    def trend_in_words(self) -> str:
        """`steady`, `growing`, `clearing in 4 min`; and what is lost or soon will be."""
        return in_words(self.trend, self.clear_in_ms, self.lost_records, self.lost_in_ms)

    @property
    def fresh_until_ms(self) -> int:
        """The end of the time of which it tells, if no other one follows."""
        return self.measured_timestamp_ms + MISSED * self.interval_ms + SLACK_MS

    def is_fresh(self, now_ms: int) -> bool:
        """Whether it still tells of the present."""
        return now_ms <= self.fresh_until_ms

    @property
    def partitions(self) -> dict[TopicPartition, MeasuredPartition]:
        """All partitions of all topics."""
        return {
            TopicPartition(topic.name, each.partition_index): each
            for topic in self.topics
            for each in topic.partitions
        }


_measurements = Records[Measurement](Measurement, "measurement")
_UNITS_S = {"d": 86_400, "h": 3_600, "min": 60}


def in_words(
    trend: str, clear_in_ms: int | None, lost_records: int = 0, lost_in_ms: int | None = None
) -> str:
    """A trend for people, and what is lost. Times are estimates."""
    clearing = trend if clear_in_ms is None else f"{trend} in {_roughly(clear_in_ms)}"
    return "; ".join(filter(None, (clearing, loss_in_words(lost_records, lost_in_ms))))


def loss_in_words(lost_records: int, lost_in_ms: int | None) -> str:
    """`1,234 records lost`, `lost soon: in 3 h`, or "" if that is not to come within a day."""
    if lost_records:
        return f"{lost_records:,} {'record' if lost_records == 1 else 'records'} lost"
    is_soon = lost_in_ms is not None and lost_in_ms < LOST_SOON_MS
    return f"lost soon: in {_roughly(lost_in_ms or 0)}" if is_soon else ""


def _roughly(ms: int) -> str:
    """A time in the largest unit of which it has two."""
    seconds = round(ms / 1_000)
    unit, length = next(((it, s) for it, s in _UNITS_S.items() if seconds >= 2 * s), ("s", 1))
    return f"{round(seconds / length)} {unit}"


def read_measurement(record: Any) -> Measurement | None:
    """Read a record of the topic; None if it is no measurement."""
    return _measurements.read(record)


def assign_since(
    consumer: KafkaConsumer, topic: str, since_ms: int, most_records: int | None = None
) -> dict[TopicPartition, int] | None:
    """Begin to read the topic at a time, with `most_records` before its end at most; returns where it ends.

    None: there is no such topic, or it may not be read.
    """
    partitions = partitions_of(consumer, topic)
    if not partitions:
        return None
    consumer.assign(partitions)
    ends = ends_of(consumer, partitions)
    # An equal part of the records from each partition.
    most = None if most_records is None else most_records // len(partitions)
    for partition, first in offsets_since(consumer, ends, since_ms).items():
        consumer.seek(partition, first if most is None else max(first, ends[partition] - most))
    return ends


class LagLog(Closing):
    """The newest measurement of each group that has a fresh one. `kafka_config`: kafka-python's settings.

    It reads from some minutes ago on, and each look goes on from where the last one has ended.
    """

    def __init__(self, topic: str, kafka_config: Mapping[str, Any], *, timeout_ms: int = 10_000) -> None:
        self._topic, self._timeout_ms = topic, timeout_ms
        self._config = (
            settings_of(KafkaConsumer, kafka_config) | WITHOUT_GROUP | {"auto_offset_reset": "latest"}
        )
        self._consumer: KafkaConsumer | None = None
        self._newest: dict[str, Measurement] = {}

    def close(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False)
            self._consumer = None

    def newest(self, group_ids: Collection[str] | None = None) -> dict[str, Measurement]:
        """The newest measurements of these groups, or of all.

        There are none without the topic or the right to read it, or if all are old. Raises a KafkaError,
        KafkaTimeoutError if nothing can be read for the timeout.
        """
        wanted = None if group_ids is None else {each.encode() for each in group_ids}
        try:
            return self._look(wanted)
        except TopicAuthorizationFailedError:
            # `partitions_of` has found the topic, which may be described and not read.
            return {}

    def _look(self, wanted: Collection[bytes] | None) -> dict[str, Measurement]:
        if self._consumer is None:
            self._consumer = KafkaConsumer(**self._config)
        if assigned := self._consumer.assignment():
            self._read(self._consumer, ends_of(self._consumer, assigned, self._timeout_ms), wanted)
            return self._fresh()
        for look_back_ms in _LOOKS_BACK_MS:
            ends = assign_since(self._consumer, self._topic, _now_ms() - look_back_ms)
            if ends is None:
                break
            self._read(self._consumer, ends, wanted)
            if self._fresh():
                break
        return self._newest

    def _fresh(self) -> dict[str, Measurement]:
        now_ms = _now_ms()
        self._newest = {each: it for each, it in self._newest.items() if it.is_fresh(now_ms)}
        return self._newest

    def _read(
        self, consumer: KafkaConsumer, ends: Mapping[TopicPartition, int], wanted: Collection[bytes] | None
    ) -> None:
        records = records_to(consumer, ends, self._timeout_ms)
        # Of each group only the last record is decoded.
        newest = {each.key: each for each in records if wanted is None or each.key in wanted}
        for record in newest.values():
            if (measurement := read_measurement(record)) is not None:
                self._newest[measurement.group_id] = measurement


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
