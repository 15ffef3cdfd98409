"""The records of its topic that a job has not read: how many there are, and how old the oldest is."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from group_coordinator.client.ask_offsets import begins_of, ends_of
from group_coordinator.jobs.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.core import Metric

    from group_coordinator.jobs.batches import Offsets

_log = logging.getLogger(__name__)

_LOOK_S = 5.0


class _Lag(NamedTuple):
    records: int
    oldest_s: float | None
    """When the oldest unread record was appended, in s since 1970; None if there is none."""


class UnreadWatch(Background, Collector):
    """Asks Kafka every `look_s` seconds, in a thread, how much of the `topic` is unread.

    Spark tells the same of a batch once it has ended, which is too late for one that takes long. `read`
    returns where the newest batch has ended, or where the first one begins. As long as it has no offsets of
    the topic, there are no samples.
    """

    def __init__(
        self,
        topic: str,
        client_config: Mapping[str, Any],
        read: Callable[[], Offsets],
        look_s: float = _LOOK_S,
    ) -> None:
        super().__init__("unread-watch")
        self._topic, self._read, self._look_s = topic, read, look_s
        self._lag: _Lag | None = None
        self._consumer = KafkaConsumer(
            **client_config,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            # Kafka sends a record at least, and here one is enough.
            max_partition_fetch_bytes=1,
        )

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._consumer.close()

    def collect(self) -> Iterator[Metric]:
        """Make the metrics from the newest look."""
        lag = self._lag
        if lag is None:
            return
        age_s = 0.0 if lag.oldest_s is None else max(0.0, time.time() - lag.oldest_s)
        yield GaugeMetricFamily(
            "group_coordinator_input_lag_records",
            "Records that no batch has read to its end, in all partitions.",
            lag.records,
        )
        yield GaugeMetricFamily(
            "group_coordinator_input_lag_seconds", "How old the oldest of these records is.", age_s
        )

    def _run(self) -> None:
        while True:
            try:
                self._lag = self._look()
            except KafkaError as error:
                # The lag of before stands, and becomes older.
                _log.debug("the lag cannot be measured, trying again: %s", error)
            if self._stopping.wait(self._look_s):
                return

    def _look(self) -> _Lag | None:
        read = self._read().get(self._topic)
        if read is None:
            return None
        numbers = self._consumer.partitions_for_topic(self._topic) or set(read)
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        begins, ends = begins_of(self._consumer, partitions), ends_of(self._consumer, partitions)
        # Nobody can read records that have passed their retention.
        positions = {each: max(begins[each], read.get(each.partition, 0)) for each in partitions}
        unread = {each: position for each, position in positions.items() if position < ends[each]}
        records = sum(ends[each] - position for each, position in unread.items())
        self._seek(unread)
        first_ms: list[int] = []
        while unread and not self._stopping.is_set():
            found = self._consumer.poll(timeout_ms=100)
            first_ms += [records[0].timestamp for records in found.values()]
            # Behind a position there may be markers of transactions only.
            passed = [each for each in unread if self._consumer.position(each) >= ends[each]]
            self._consumer.pause(*found, *passed)
            unread = {each: it for each, it in unread.items() if each not in {*found, *passed}}
        return _Lag(records, min(first_ms) / 1000 if first_ms else None)

    def _seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions next, from there on."""
        self._consumer.assign(list(positions))
        for partition, position in positions.items():
            self._consumer.seek(partition, position)
        # Kafka's client pauses those for longer that were paused before.
        self._consumer.resume(*positions)
