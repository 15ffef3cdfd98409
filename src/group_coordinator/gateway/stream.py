"""The way to the coordinator and back: one producer and one reader for all clients of a gateway.

Both have threads of their own. They tell the event loop everything in batches, one call for each.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, TopicAuthorizationFailedError
from kafka.structs import TopicPartition

from group_coordinator.client.ask_offsets import begins_of, ends_of
from group_coordinator.client.channel import read_answer, settings_of
from group_coordinator.client.groups_log import read_picture
from group_coordinator.client.sides_log import SidesLog
from group_coordinator.client.topic_ids import found_in
from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.newest import Newest, place_in
from group_coordinator.coordinator_state.seldom import Seldom
from group_coordinator.gateway.groups import ListedGroup
from group_coordinator.gateway.renewals import KnownPatterns
from group_coordinator.jobs.threads import look_at

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping, Sequence

    from group_coordinator.coordinator_state.offsets.still_there import Found
    from group_coordinator.coordinator_state.sides import SideRecord
    from group_coordinator.gateway.outgoing import LogRecord

log = logging.getLogger(__name__)

_POLL_MS = 500
_LOOK_S = 2.0
"""Until the topic of sides is looked for again."""
_MOST_REASONS = 10
_LOOKUP_MS = 2_000
_MOST_BLOCKED_MS = 5
"""How long the event loop waits at most if the request topic is gone. Then it refuses for `_GONE_S`."""
_GONE_S = 1.0
"""Until the request topic is looked for again."""
_DELIVERY_MS = 4_000
"""A request that Kafka has not taken by then is never sent: a late commit would take a group back.

It is shorter than any request waits for its answer, so none is answered before its fate is known.
"""


class Listener(NamedTuple):
    """The functions that are told of the log, in the event loop."""

    acknowledged: Callable[[Sequence[str]], Any]
    """Kafka has taken these requests."""
    refused: Callable[[Sequence[str]], Any]
    """Kafka has not taken these requests, and never will."""
    responses: Callable[[Sequence[Any], Sequence[tuple[str, int]]], Any]
    """The coordinator has answered, this gateway or another one that shares its partition.

    With the groups, and the places, of which answers tell and pictures have not been read."""
    groups: Callable[[Sequence[tuple[str, ListedGroup | None, int | None]], bool], Any]
    """Groups have changed, with the places of the pictures; True once all that there were at the start have
    been told."""
    unreadable: Callable[[str], Any]
    """Responses or groups cannot be read just now, with the reason."""


class Loop:
    """Tells the event loop something, as long as there is one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call `function` in the event loop."""
        # It may be closed at any moment.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)


# -- to the log ----------------------------------------------------------------------------------------


class Writer:
    """Writes requests to the log, in the order in which they are given.

    Raises a KafkaError if Kafka cannot be reached at first.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        topic: str,
        kafka_config: Mapping[str, Any],
    ) -> None:
        self._loop, self._listener, self._topic = Loop(loop), listener, topic
        self._lock = threading.Lock()
        self._done: dict[bool, list[str]] = {True: [], False: []}
        """Request ids that Kafka has taken, or not, and that the event loop does not know of yet."""
        self._gone_until_s = 0.0
        """Until then the request topic is not looked for, because it is gone."""
        self._unwritten = Seldom()
        self._producer = KafkaProducer(**settings_of(KafkaProducer, kafka_config) | _PRODUCER_SETTINGS)
        # So that no `write` has to wait for metadata, in the event loop.
        self._producer.partitions_for(topic)
        self._producer.config["max_block_ms"] = _MOST_BLOCKED_MS

    def write(self, record: LogRecord) -> None:
        """Put a request on its way, and return at once."""
        now_s = time.monotonic()
        if now_s < self._gone_until_s:
            self._refuse(record, now_s, f"topic {self._topic} is gone")
            return
        try:
            future = self._producer.send(self._topic, key=record.key, value=record.value)
        except KafkaError as error:
            if isinstance(error, KafkaTimeoutError):
                # It waited for the topic, and each of the next ones would do so as well.
                self._gone_until_s = time.monotonic() + _GONE_S
            self._refuse(record, now_s, f"{error}")
            return
        future.add_callback(lambda _: self._tell(record.request_id, is_taken=True))
        future.add_errback(lambda _: self._tell(record.request_id, is_taken=False))

    def close(self, timeout_s: float) -> None:
        """Wait for what is on its way, and disconnect."""
        try:
            self._producer.close(timeout=timeout_s)
        except KafkaError as error:
            log.warning("the last requests are not delivered: %s", error)

    def _refuse(self, record: LogRecord, now_s: float, reason: str) -> None:
        if count := self._unwritten.happened(now_s):
            log.warning("%s requests cannot be written: %s", count, reason)
        self._tell(record.request_id, is_taken=False)

    def _tell(self, request_id: str, *, is_taken: bool) -> None:
        with self._lock:
            is_first = not (self._done[True] or self._done[False])
            self._done[is_taken].append(request_id)
        if is_first:
            self._loop.call(self._told)

    def _told(self) -> None:
        with self._lock:
            done, self._done = self._done, {True: [], False: []}
        if done[True]:
            self._listener.acknowledged(done[True])
        if done[False]:
            self._listener.refused(done[False])


class Lookup:
    """Asks Kafka for topics, one question at a time, for `Topics`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        told: Callable[[Mapping[str, Found]], Any],
        kafka_config: Mapping[str, Any],
    ) -> None:
        self._loop, self._told = Loop(loop), told
        config = settings_of(KafkaAdminClient, kafka_config) | {"request_timeout_ms": _LOOKUP_MS}
        self._admin = KafkaAdminClient(**config)
        self._thread = ThreadPoolExecutor(1, "gateway's lookup")
        self._is_failing = False

    def ask(self, topics: list[str]) -> None:
        """Look topics up, and return at once."""
        look_at(self._thread.submit(self._ask, topics))

    def close(self) -> None:
        """Disconnect."""
        self._thread.shutdown(cancel_futures=True)
        self._admin.close()

    def _ask(self, topics: list[str]) -> None:
        found: dict[str, Found] = {}
        try:
            found = found_in(self._admin.describe_topics(topics))
            self._is_failing = False
        except KafkaError as error:
            if not self._is_failing:
                log.warning(
                    "topics cannot be looked up: commits are let pass and fetches put off until they can: %s",
                    error,
                )
            self._is_failing = True
        finally:
            self._loop.call(self._told, found)


# -- from the coordinator --------------------------------------------------------------------------------


class Reader:
    """Reads the responses of one partition, and which groups there are.

    It stands at the end of its partition when it has been made. Raises a KafkaError if that cannot be done.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        response_topics: Collection[str],
        partition: int,
        groups: Collection[TopicPartition],
        kafka_config: Mapping[str, Any],
    ) -> None:
        self._loop, self._listener = Loop(loop), listener
        self._stopping = threading.Event()
        self._responses = frozenset(response_topics)
        self._newest = Newest()
        self._failures: dict[str, Seldom] = {}
        """When it was logged last why reading has failed, by reason."""
        with ExitStack() as on_error:
            self._consumer = KafkaConsumer(**settings_of(KafkaConsumer, kafka_config) | _CONSUMER_SETTINGS)
            on_error.callback(self._consumer.close)
            ours = [TopicPartition(topic, partition) for topic in sorted(response_topics)]
            self._consumer.assign([*ours, *groups])
            # A fixed offset, and now: a lazy "from the end" would be the end after the first answer.
            for each, end in ends_of(self._consumer, ours).items():
                self._consumer.seek(each, end)
            begins, ends = begins_of(self._consumer, groups), ends_of(self._consumer, groups)
            for each in groups:
                self._consumer.seek(each, begins[each])
            self._unread = {each: ends[each] for each in groups if begins[each] < ends[each]}
            """How far the groups are to be read before all that there were are known."""
            on_error.pop_all()
        self._thread = threading.Thread(target=self._run, name="gateway's reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close(autocommit=False)

    def _run(self) -> None:
        if not self._unread:
            self._loop.call(self._listener.groups, [], True)
        while not self._stopping.is_set():
            try:
                by_partition = self._consumer.poll(timeout_ms=_POLL_MS)
            except KafkaError as error:
                self._failed(str(error))
                self._stopping.wait(_POLL_MS / 1000)
                continue
            self._take([record for records in by_partition.values() for record in records])

    def _failed(self, reason: str) -> None:
        if len(self._failures) == _MOST_REASONS:
            self._failures.clear()
        if self._failures.setdefault(reason, Seldom()).happened(time.monotonic()):
            log.warning("reading answers failed, trying again: %s", reason)
        self._loop.call(self._listener.unreadable, reason)

    def _take(self, records: list[Any]) -> None:
        told = [
            _read_group(each)
            for each in records
            if each.topic not in self._responses and self._newest.take(each.key, each.headers)
        ]
        responses, unseen = [], []
        for each in records:
            if each.topic not in self._responses or each.value is None:
                continue
            if (response := read_answer(each.value)) is None:
                continue
            responses.append(response)
            place = place_in(each.headers)
            if place is not None and response.group_id and not self._has(response.group_id, place):
                unseen.append((response.group_id, place))
        was_unread = bool(self._unread)
        for each in list(self._unread):
            if self._consumer.position(each) >= self._unread[each]:
                del self._unread[each]
        # First, because a client that is told of them may ask for a list at once.
        if told or (was_unread and not self._unread):
            groups = [each for each in told if each is not None]
            self._loop.call(self._listener.groups, groups, not self._unread)
        if responses:
            self._loop.call(self._listener.responses, responses, unseen)

    def _has(self, group_id: str, place: int) -> bool:
        return self._newest.has(group_id.encode(), place)


class SidesReader:
    """Reads which side groups are on, and goes on after `first`. `changed` is told what changes then.

    Raises a KafkaError if the topic is there and cannot be read to its end.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        changed: Callable[[Mapping[str, SideRecord | None]], Any],
        topic: str,
        kafka_config: Mapping[str, Any],
    ) -> None:
        self._loop, self._changed = Loop(loop), changed
        self._failing = Seldom()
        self._stopping = threading.Event()
        with ExitStack() as on_error:
            self._log = SidesLog(topic, kafka_config)
            on_error.callback(self._log.close)
            self._is_there = self._log.find()
            self.first = self._log.read_all() if self._is_there else {}
            on_error.pop_all()
        if not self._is_there:
            log.info("topic %s is not there to be read: groups stay on their sides until it is", topic)
        self._thread = threading.Thread(target=self._run, name="gateway's reader of sides", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._stopping.set()
        self._thread.join()
        self._log.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._is_there = self._is_there or self._log.find()
                changes = self._log.poll(_POLL_MS) if self._is_there else {}
            except KafkaError as error:
                self._is_there = not isinstance(error, TopicAuthorizationFailedError) and self._is_there
                if self._failing.happened(time.monotonic()):
                    log.warning("the sides of groups cannot be read, trying again: %s", error)
                self._stopping.wait(_POLL_MS / 1_000)
                continue
            if changes:
                self._loop.call(self._changed, changes)
            if not self._is_there:
                self._stopping.wait(_LOOK_S)


def _read_group(record: Any) -> tuple[str, ListedGroup | None, int | None] | None:
    if record.key is None:
        return None
    group_id, place = record.key.decode(errors="replace"), place_in(record.headers)
    if record.value is None:
        return group_id, None, place
    if (picture := read_picture(record)) is None:
        return None
    known = KnownPatterns(picture.metadata_version, picture.patterns) if picture.patterns else None
    group = ListedGroup(picture.state, picture.protocol_type or "", picture.group_type, known)
    return group_id, group, place


# -- kafka-python's settings ---------------------------------------------------------------------------

_CONSUMER_SETTINGS: dict[str, Any] = {
    "group_id": None,
    "enable_auto_commit": False,
    "allow_auto_create_topics": False,
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 500,
    # A picture of a large group, or the answer to its leader, is larger than what is fetched by default.
    "max_partition_fetch_bytes": 16 * 1024 * 1024,
    "fetch_max_bytes": 64 * 1024 * 1024,
}
_PRODUCER_SETTINGS: dict[str, Any] = {
    "acks": "all",
    # An idempotent producer of kafka-python 3.0 never sends anything again once a request in flight has been
    # there for longer than the delivery timeout. The coordinator can take what a retry writes twice. With one
    # request in flight retries keep the order.
    "enable_idempotence": False,
    "max_in_flight_requests_per_connection": 1,
    "allow_auto_create_topics": False,
    "linger_ms": 2,
    # The heartbeats of an instant are to arrive at once, and batches of one partition go one after the other.
    # Brokers take twice as much by default. If a topic takes less, kafka-python cuts the batch.
    "batch_size": 512 * 1024,
    "request_timeout_ms": _DELIVERY_MS - 500,
    "delivery_timeout_ms": _DELIVERY_MS,
    "max_block_ms": 10_000,
    # The coordinator's max.request.bytes is the limit, and no request is given that it would not read.
    "max_request_size": INT32_MAX,
}
