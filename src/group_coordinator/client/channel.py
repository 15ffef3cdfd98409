"""The way to the coordinator and back: requests to one Kafka topic, answers from one partition of another."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Any, Protocol

import msgspec
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, NoError, UnknownTopicOrPartitionError, for_code
from kafka.structs import TopicPartition

from group_coordinator.client.any_membership import AnyAnswer
from group_coordinator.client.ask_offsets import ends_of
from group_coordinator.client.foreign import Records
from group_coordinator.client.tokens import check_token
from group_coordinator.client.topic_ids import topic_id_of
from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.foreign import ForeignJson
from group_coordinator.coordinator_state.partitioning import partition_for_key
from group_coordinator.coordinator_state.requests import AnyRequest, TopicFacts
from group_coordinator.coordinator_state.responses import AnyResponse, InvalidRequestResponse

log = logging.getLogger(__name__)

_UNREACHABLE_AFTER_S = 5.0


class MissingTopicError(Exception):
    """A topic of the coordinator does not exist."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic!r} does not exist. The coordinator creates its topics when it starts: start it "
            f"first, and give members the names of topics that it was given."
        )


class Channel(Protocol):
    """Everything that a member needs of the world. `send` is called by several threads, `receive` by one."""

    @property
    def reply_partition(self) -> int:
        """Partition of the response topic that `receive` reads."""

    def send(self, request: AnyRequest) -> None:
        """Send without waiting; requests arrive in order. Raises what has made an earlier one fail."""

    def receive(self, timeout_ms: int) -> list[AnyAnswer]:
        """Wait for answers to this member, up to `timeout_ms`; answers to others may be among them."""

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Look up topics: topic -> number of partitions, without those that do not exist; or a KafkaError."""

    def topic_facts(self, topics: Collection[str]) -> Mapping[str, TopicFacts]:
        """Look up topics with their ids, without those that do not exist; or a KafkaError."""

    def close(self, timeout_ms: int) -> None:
        """Wait for requests to be delivered, up to `timeout_ms`, and disconnect."""


class KafkaChannel:
    """A channel over Kafka. `kafka_config`: kafka-python's settings, for all of its clients alike.

    `instance` is a part of this member's request ids: answers without it are dropped unread (none, if it is
    empty). Several
    response topics are for who asks about groups of several tenants. Raises MissingTopicError, ValueError for
    a setting that kafka-python does not have, or a KafkaError (`TokenRefusedError` is one).
    """

    def __init__(
        self,
        *,
        client_id: str,
        instance: str,
        request_topic: str,
        response_topic: str | Collection[str],
        **kafka_config: Any,
    ) -> None:
        response_topics = [response_topic] if isinstance(response_topic, str) else sorted(set(response_topic))
        self._keys = frozenset({client_id.encode()})
        self._instance = instance.encode()
        self._request_topic = request_topic
        self._delivery = _Delivery()
        self._closed = threading.Event()
        kafka_config["client_id"] = client_id
        check_settings(kafka_config)
        check_token(kafka_config)

        with ExitStack() as on_error:
            self._admin = KafkaAdminClient(**_ADMIN_DEFAULTS | settings_of(KafkaAdminClient, kafka_config))
            on_error.callback(self._admin.close)
            counts = self.partition_counts([request_topic, *response_topics])
            for topic in (request_topic, *response_topics):
                if topic not in counts:
                    raise MissingTopicError(topic)
            # The coordinator sees to it that they have equally many.
            partitions = min(counts[topic] for topic in response_topics)
            self.reply_partition = partition_for_key(client_id.encode(), partitions)
            self._consumer = KafkaConsumer(**_consumer_settings(kafka_config))
            on_error.callback(self._consumer.close)
            self._start_reading([TopicPartition(topic, self.reply_partition) for topic in response_topics])
            self._producer = KafkaProducer(**_producer_settings(kafka_config))
            on_error.callback(self._producer.close)
            # So that no `send` has to wait for metadata, with a lock held and heartbeats due.
            self._producer.partitions_for(request_topic)
            on_error.pop_all()

    def _start_reading(self, partitions: list[TopicPartition]) -> None:
        self._consumer.assign(partitions)
        # A fixed offset, and now: a lazy "from the end" would be the end after the first answer.
        for partition, end in ends_of(self._consumer, partitions).items():
            self._consumer.seek(partition, end)

    def listen_to(self, client_id: str) -> None:
        """Have `receive` also return answers to this client, of those that come where this channel's do."""
        # Another set, as another thread may be looking into this one.
        self._keys |= {client_id.encode()}

    def send(self, request: AnyRequest) -> None:
        """See `Channel`."""
        self._delivery.check()
        self._delivery.sent()
        future = self._producer.send(
            self._request_topic, key=request.group_id.encode(), value=msgspec.json.encode(request)
        )
        future.add_callback(lambda _: self._delivery.acknowledged())
        future.add_errback(self._delivery.failed)

    def receive(self, timeout_ms: int) -> list[AnyAnswer]:
        """See `Channel`."""
        self._delivery.check()
        try:
            by_partition = self._consumer.poll(timeout_ms=timeout_ms)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.debug("reading answers failed, trying again: %s", error)
            self._closed.wait(timeout_ms / 1000)
            return []
        records = (record for records in by_partition.values() for record in records)
        answers = (self._read(record.key, record.value) for record in records)
        return [answer for answer in answers if answer is not None]

    def _read(self, key: bytes | None, value: bytes | None) -> AnyAnswer | None:
        # Other members share the partition, so most records are not worth decoding.
        if key not in self._keys or value is None or self._instance not in value:
            return None
        return read_answer(value)

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """See `Channel`."""
        return {each["name"]: len(each["partitions"]) for each in self._existing(topics)}

    def topic_facts(self, topics: Collection[str]) -> Mapping[str, TopicFacts]:
        """See `Channel`. A topic of a broker that tells no ids (before Kafka 2.8) is left out."""
        facts = {}
        for each in self._existing(topics):
            name, count, topic_id = each["name"], len(each["partitions"]), topic_id_of(each)
            if count and topic_id:
                facts[name] = TopicFacts(name, count, topic_id)
        return facts

    def _existing(self, topics: Collection[str]) -> list[Mapping[str, Any]]:
        """The topics that exist, as kafka-python describes them."""
        if not topics:  # an empty list would ask for all topics
            return []
        existing = []
        for described in self._admin.describe_topics(sorted(topics)):
            error = for_code(described["error_code"])
            # Only "does not exist" means no partitions; what may pass must not take them from the group.
            if error is NoError:
                existing.append(described)
            elif error is not UnknownTopicOrPartitionError:
                raise error(described["name"])
        return existing

    def close(self, timeout_ms: int) -> None:
        """See `Channel`."""
        self._closed.set()
        try:
            self._producer.close(timeout=timeout_ms / 1000)
        except KafkaTimeoutError:
            # A producer with something to deliver cannot be closed. Its thread is a daemon that goes on
            # trying and ends with the process, so the leave may still arrive.
            log.warning("Kafka cannot be reached: the last requests are not delivered yet")
        self._consumer.close(autocommit=False, timeout_ms=timeout_ms)
        self._admin.close()


_answers = ForeignJson[AnyResponse](AnyResponse)
_unread_answers = Records[InvalidRequestResponse](InvalidRequestResponse, "answer")


def read_answer(value: bytes) -> AnyAnswer | None:
    """Read a record of a response topic; None if it is not as the contract has it."""
    answer = _answers.read_or_none(value)
    # If it is of none of the known APIs, it may be the answer to a request that could not be read.
    return _unread_answers.read_value(value, "a response") if answer is None else answer


class _Delivery:
    """Keeps watch over what was sent: says once that Kafka is out of reach, and once that it is back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_flight = 0
        self._waiting_since = 0.0
        self._unreachable = False
        self._failure: Exception | None = None

    def sent(self) -> None:
        with self._lock:
            if not self._in_flight:
                self._waiting_since = time.monotonic()
            self._in_flight += 1

    def acknowledged(self) -> None:
        with self._lock:
            self._in_flight -= 1
            self._waiting_since = time.monotonic()
            if self._unreachable:
                self._unreachable = False
                log.warning("Kafka can be reached again; the requests of the meantime are delivered")

    def failed(self, error: Exception) -> None:
        with self._lock:
            self._in_flight -= 1
            self._failure = self._failure or error

    def check(self) -> None:
        """Raise if a request has failed for good; log if none gets through."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            waited_s = time.monotonic() - self._waiting_since
            if self._in_flight and waited_s > _UNREACHABLE_AFTER_S and not self._unreachable:
                self._unreachable = True
                log.warning(
                    "Kafka has acknowledged no request for %.0f s; requests are kept and sent when it can be "
                    "reached. If that takes longer than the session timeout, the group goes on without this "
                    "member.",
                    waited_s,
                )


# -- kafka-python's settings -----------------------------------------------------------------------------

# Java's value. With kafka-python's, 30 s, a member may be silent for longer than its session when Kafka comes
# back after an outage.
_DEFAULTS = {"reconnect_backoff_max_ms": 1_000}
# The broker answers an idle member once in that time. An answer that comes ends the wait at once.
_MOST_FETCH_WAIT_MS = 5_000
# The leader looks topics up within `poll`, which must not hang for long.
_ADMIN_DEFAULTS = {"request_timeout_ms": 5_000}
WITHOUT_GROUP: dict[str, Any] = {
    "group_id": None,
    "enable_auto_commit": False,
    "allow_auto_create_topics": False,
}
"""Settings of a consumer that only reads: it is in no group, commits nothing, and makes no topic."""
_CONSUMER_SETTINGS = {
    **WITHOUT_GROUP,
    # Only matters when retention overtakes this member: what is still there may be for it.
    "auto_offset_reset": "earliest",
    "key_deserializer": None,
    "value_deserializer": None,
}
_PRODUCER_SETTINGS = {
    "acks": "all",
    "allow_auto_create_topics": False,
    # The coordinator finds heartbeats that came late in its log; one that was dropped it never finds. So
    # nothing is dropped for being old: a request gets into the log, or fails for good.
    "delivery_timeout_ms": 2**31 - 1,
    "key_serializer": None,
    "linger_ms": 0,
    "value_serializer": None,
}


def check_settings(kafka_config: Mapping[str, Any]) -> None:
    """Raise `ValueError` for settings that are not kafka-python's, or that a channel needs as they are."""
    for name in kafka_config:
        if name in _CONSUMER_SETTINGS or name in _PRODUCER_SETTINGS:
            raise ValueError(f"{name!r} cannot be chosen: requests or answers might not arrive")
        if not any(
            name in client.DEFAULT_CONFIG for client in (KafkaAdminClient, KafkaConsumer, KafkaProducer)
        ):
            raise ValueError(f"{name!r} is a setting neither of a member nor of kafka-python")


def settings_of(client: Any, kafka_config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that this kind of client has."""
    settings = {**_DEFAULTS, **kafka_config}
    return {name: value for name, value in settings.items() if name in client.DEFAULT_CONFIG}


def _consumer_settings(kafka_config: Mapping[str, Any]) -> dict[str, Any]:
    settings = settings_of(KafkaConsumer, kafka_config) | _CONSUMER_SETTINGS
    # A fetch has to end before kafka-python takes the broker for dead.
    patience_ms = settings.get("request_timeout_ms", KafkaConsumer.DEFAULT_CONFIG["request_timeout_ms"])
    return {"fetch_max_wait_ms": min(_MOST_FETCH_WAIT_MS, patience_ms // 2)} | settings


def _producer_settings(kafka_config: Mapping[str, Any]) -> dict[str, Any]:
    # The coordinator's max.request.bytes is the limit, unless a program sets one of its own.
    return {"max_request_size": INT32_MAX} | settings_of(KafkaProducer, kafka_config) | _PRODUCER_SETTINGS
