"""Corrections of records that a coordinator writes late, after another one has taken over.

The one that takes over runs the batch again that the other one had planned and not committed, and goes on.
The other one may still be writing that batch, because its driver was paused and its executors were not, say.
Then an older record of `coordinator.groups` or `coordinator.offsets` comes after a newer one. Programs that
read on ignore it, by the place in its header (`newest.py`). A program that begins to read sees the older
state. Only keys of that batch can be concerned. So the one that has taken over reads for some minutes what is
written to them. When an older record has come after the newest one, it writes the newest again.

It may die within these minutes. Then the next one goes on with what it was watching: from where its watch
began, as the checkpoint says, all keys may be concerned.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from group_coordinator.checkpoints.watches import Watch, begin_watch, open_watches
from group_coordinator.client.ask_offsets import ends_of
from group_coordinator.client.since import has_read_to, partitions_there
from group_coordinator.coordinator_state.newest import header
from group_coordinator.jobs.lookups import SOON
from group_coordinator.jobs.threads import Background
from group_coordinator.streaming.overtaken import Overtaken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from group_coordinator.checkpoints.files import CheckpointFiles
    from group_coordinator.streaming.overtaken import Correction

_log = logging.getLogger(__name__)

_WATCH_S = 300.0
"""How long, after the batch has been run again, and after each record that came late. Spark's producer gives
up a record after two minutes, and the task that hands it over may have gone on for some time."""
_POLL_MS = 500
_PAUSE_S = 5.0
_SEND_MS = 10_000


class Corrections(Background):
    """Watches and corrects in a thread, while the context is open.

    Args:
        files: of the checkpoint.
        topics: the compacted ones.
        client_config: for kafka-python.
        largest: bytes that a record may have.
        is_active: whether this is the active coordinator; only that one writes.
    """

    def __init__(
        self,
        files: CheckpointFiles,
        topics: Sequence[str],
        client_config: Mapping[str, Any],
        largest: int,
        is_active: Callable[[], bool],
    ) -> None:
        super().__init__("corrections")
        self._files, self._topics = files, topics
        self._client_config, self._largest = client_config, largest
        self._is_active = is_active
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._consumer: KafkaConsumer | None = None
        """While the topics are watched."""
        self._until: float | None = None
        """When the watch is over; None: the batch has not been run again yet."""
        self._ends: dict[TopicPartition, int] | None = None
        """Where the topics ended when it had been."""
        self._has_begun = False
        self._begins: dict[TopicPartition, int] = {}
        """Where this coordinator's newest watch began."""

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._wanted.set()
        super().__exit__()

    def begin(self, now_ms: int, *, runs_again: bool) -> None:
        """Take in that a query begins, at log time `now_ms`.

        Watch from here on if the batch that is planned runs again. Otherwise it has been run, and what is
        written from here on is of other batches. Where a coordinator before this one was watching, go on with
        that. Raises `CheckpointError`, and `KafkaError` if Kafka does not say where the topics end.
        """
        with self._lock:
            before = [] if self._has_begun else open_watches(self._files, now_ms)
            if runs_again:
                self._until = self._ends = None
            if self._consumer is None and (runs_again or before):
                self._consumer, self._begins = self._at_the_ends()
                _go_back(self._consumer, before)
            if runs_again:
                begin_watch(self._files, Watch(now_ms, _by_topic(self._begins)))
            elif self._consumer is not None and self._until is None:
                self._until = time.monotonic() + _WATCH_S
            self._has_begun = True
            if self._consumer is not None:
                self._wanted.set()

    def _at_the_ends(self) -> tuple[KafkaConsumer, dict[TopicPartition, int]]:
        consumer = KafkaConsumer(**self._client_config, **SOON, group_id=None, enable_auto_commit=False)
        try:
            partitions = [each for topic in self._topics for each in partitions_there(consumer, topic)]
            consumer.assign(partitions)
            ends = ends_of(consumer, partitions)
            for partition, end in ends.items():
                consumer.seek(partition, end)
        except KafkaError:
            consumer.close()
            raise
        return consumer, ends

    # -- in the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            consumer = self._consumer
            if consumer is not None:
                self._watch(consumer)
                consumer.close()
            if self._stopping.is_set():
                return

    def _watch(self, consumer: KafkaConsumer) -> None:
        overtaken = Overtaken()
        while not self._is_over():
            try:
                self._read(consumer, overtaken)
                # Of what was there before, a record may be the newest only until it is all read.
                if has_read_to(consumer, self._begins) and self._is_active():
                    self._write(overtaken.due(time.monotonic()))
            except KafkaError as error:
                _log.warning("records that came late cannot be corrected, trying again: %s", error)
                self._stopping.wait(_PAUSE_S)

    def _is_over(self) -> bool:
        with self._lock:
            is_over = self._until is not None and time.monotonic() > self._until
            if is_over or self._stopping.is_set():
                self._consumer = None
                self._wanted.clear()
                return True
            return False

    def _read(self, consumer: KafkaConsumer, overtaken: Overtaken) -> None:
        is_done, ends = self._until is not None, self._ends
        if is_done and ends is None:
            ends = ends_of(consumer, consumer.assignment())
            with self._lock:
                # Unless another batch is expected since then.
                self._ends = None if self._until is None else ends
        late, was_full = 0, overtaken.is_full
        for partition, records in consumer.poll(timeout_ms=_POLL_MS).items():
            for record in records:
                is_of_batch = ends is None or record.offset < ends[partition]
                late += overtaken.take(record, is_of_batch=is_of_batch)
        if overtaken.is_full and not was_full:
            _log.warning("so much has changed that not all of it is watched for records that come late")
        if late:
            _log.warning(
                "%d records of a coordinator that was superseded came late: the newer ones are written again",
                late,
            )
            with self._lock:
                if self._until is not None:
                    self._until = time.monotonic() + _WATCH_S

    def _write(self, due: Sequence[Correction]) -> None:
        if not due:
            return
        producer = KafkaProducer(
            **{"bootstrap_timeout_ms": _SEND_MS, **self._client_config},
            acks="all",
            # Each is tried again in time, as long as it is still needed.
            retries=0,
            enable_idempotence=False,
            request_timeout_ms=_SEND_MS // 2,
            delivery_timeout_ms=_SEND_MS,
            max_block_ms=_SEND_MS,
            max_request_size=self._largest,
        )
        try:
            sent = [
                producer.send(
                    each.partition.topic,
                    key=each.key,
                    value=each.value,
                    headers=[header(each.place)],
                    partition=each.partition.partition,
                )
                for each in due
            ]
            for each in sent:
                each.get(_SEND_MS / 1000)
        finally:
            producer.close(timeout=_SEND_MS / 1000)


def _go_back(consumer: KafkaConsumer, watches: Iterable[Watch]) -> None:
    """Read from where the first of `watches` began."""
    for watch in watches:
        for topic, ends in watch.ends.items():
            for number, end in ends.items():
                partition = TopicPartition(topic, number)
                if end < consumer.position(partition):
                    consumer.seek(partition, end)


def _by_topic(ends: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    by_topic: dict[str, dict[int, int]] = {}
    for partition, end in ends.items():
        by_topic.setdefault(partition.topic, {})[partition.partition] = end
    return by_topic
