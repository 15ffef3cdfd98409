"""The groups as they are, read from the topics in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from group_coordinator.client.ask_offsets import begins_of, ends_of
from group_coordinator.client.channel import WITHOUT_GROUP
from group_coordinator.client.messages import message_of
from group_coordinator.client.since import has_read_to, offsets_since, partitions_of
from group_coordinator.history.rows import ms_of
from group_coordinator.jobs.threads import Background
from group_coordinator.page.memory import Memory
from group_coordinator.page.pulse import MAX_GAP, Pulse

_POLL_MS = 500
_AGAIN_S = 2.0
_BOOTSTRAP_MS = 3_000
_QUIET_S = 3.0
"""Brokers are asked for a sign of life when nothing has come for so long."""
_END_S = 1.0
"""Requests to brokers that are away may take longer to fail. The end of the process does not wait for them.
"""


class Live(Background):
    """Reads while the context is open. `back`: how far back in the topic of events it begins.

    `clock_topic`: that of the coordinator's ticks; None for groups at the brokers, where nobody ticks.
    `max_gap`: the coordinator's `clock.max.gap.ms`, without which nobody can tell whether it runs. `writer`:
    the job that writes the topics.

    Topics that are not there yet, and brokers that are away, are waited for; `problem` says so.
    """

    def __init__(
        self,
        groups_topic: str,
        events_topic: str,
        clock_topic: str | None,
        client_config: Mapping[str, Any],
        *,
        back: timedelta = timedelta(hours=6),
        max_gap: timedelta = MAX_GAP,
        writer: str = "the coordinator",
    ) -> None:
        super().__init__("ui-live", end_s=_END_S)
        self._groups_topic = groups_topic
        self._events_topic = events_topic
        self._clock = None if clock_topic is None else TopicPartition(clock_topic, 0)
        self._writer = writer
        self._client_config = dict(client_config)
        self._back = back
        self.memory = Memory()
        self.pulse = Pulse(max_gap)
        self.problem: str | None = "the topics are being read"
        """Why what is known may not be all there is; one line."""
        self.has_connected = False
        """Whether Kafka has answered yet."""

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._read()
            except KafkaError as error:
                refused = isinstance(error, TopicAuthorizationFailedError) and error.args
                if self._clock is not None and refused == ({self._clock.topic},):
                    # A reader who may only describe the topic finds it, and is refused when it fetches.
                    self._clock = None
                    continue
                self.problem = f"Kafka cannot be read: {message_of(error)}"
                self._stopping.wait(_AGAIN_S)

    def _read(self) -> None:
        config = {"bootstrap_timeout_ms": _BOOTSTRAP_MS, **self._client_config, **WITHOUT_GROUP}
        with closing(KafkaConsumer(**config)) as consumer:
            self.has_connected = True
            begin_ms = ms_of(datetime.now(UTC) - self._back)
            partitions = self._assign(consumer, begin_ms)
            if partitions is None:
                self._stopping.wait(_AGAIN_S)
                return
            ends = ends_of(consumer, partitions)
            # Others go on with what was known before until as much is known again.
            memory = Memory(begin_ms=begin_ms)
            heard_s = time.monotonic()
            while not self._stopping.is_set():
                for partition, records in consumer.poll(timeout_ms=_POLL_MS).items():
                    heard_s = time.monotonic()
                    for record in records:
                        if partition == self._clock:
                            is_new = record.offset >= ends[partition]
                            self.pulse.take(record, datetime.now(UTC), is_new=is_new)
                        elif partition.topic == self._groups_topic:
                            memory.take_picture(record.key, record.value, record.headers)
                        else:
                            memory.take_event(record.offset, record.value)
                if self.memory is not memory and has_read_to(consumer, ends):
                    self.memory, self.problem = memory, None
                    self.pulse.has_looked = self._clock in ends
                if time.monotonic() - heard_s > _QUIET_S:
                    # A consumer says nothing of brokers that are away; a request to them does.
                    ends_of(consumer, partitions, _BOOTSTRAP_MS)
                    heard_s = time.monotonic()

    def _assign(self, consumer: KafkaConsumer, begin_ms: int) -> list[TopicPartition] | None:
        """Begin with all pictures, and with the events since `begin_ms`; None if a topic is not there."""
        found: dict[str, list[TopicPartition]] = {}
        for topic in (self._groups_topic, self._events_topic):
            numbers = consumer.partitions_for_topic(topic)
            if not numbers:
                self.problem = f"there is no topic {topic}: has {self._writer} run with these topics?"
                return None
            found[topic] = [TopicPartition(topic, number) for number in sorted(numbers)]
        pictures, events = found[self._groups_topic], found[self._events_topic]
        # Without that topic nothing is said about coordinators.
        there = [] if self._clock is None else partitions_of(consumer, self._clock.topic)
        clock = [each for each in there if each == self._clock]
        consumer.assign([*pictures, *events, *clock])
        begins = begins_of(consumer, [*pictures, *clock])
        for partition in pictures:
            consumer.seek(partition, begins[partition])
        for partition, begin in offsets_since(consumer, ends_of(consumer, events), begin_ms).items():
            consumer.seek(partition, begin)
        if clock:
            consumer.seek(self._clock, max(begins[self._clock], ends_of(consumer, clock)[self._clock] - 1))
        return [*pictures, *events, *clock]
