"""The coordinator's topics, as somebody uses them who writes requests by hand and reads what comes of it."""

from __future__ import annotations

import itertools
import json
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.patience import PATIENCE_S, wait_for
from tests.repeating import repeating

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka.consumer.fetcher import ConsumerRecord


class Reader:
    """All records of some topics from the beginning, or from now on, read as they come and kept."""

    def __init__(
        self,
        config: dict[str, Any],
        *topics: str,
        from_now_on: bool = False,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        """`check`: raises why nothing will come any more."""
        self.records: list[ConsumerRecord] = []
        self._check = check
        self._consumer = KafkaConsumer(**config, group_id=None, enable_auto_commit=False)
        self._assigned = [
            TopicPartition(topic, number)
            for topic in topics
            for number in wait_for(partial(self._consumer.partitions_for_topic, topic))
        ]
        self._consumer.assign(self._assigned)
        # So that it is connected: kafka-python 3.0.12 leaks the socket of a client closed while it connects.
        ends = self._consumer.end_offsets(self._assigned)
        if from_now_on:
            for partition, end in ends.items():
                self._consumer.seek(partition, end)
        else:
            self._consumer.seek_to_beginning(*self._assigned)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def poll(self, timeout_ms: int = 100) -> list[ConsumerRecord]:
        """Take in what has come, and return it."""
        self._check()
        polled = self._consumer.poll(timeout_ms=timeout_ms).values()
        new = [record for records in polled for record in records]
        self.records += new
        return new

    def values(self) -> list[Any]:
        """The values so far, decoded; None for a tombstone."""
        return [record.value and json.loads(record.value) for record in self.records]

    def until(self, enough: Callable[[list[Any]], object]) -> list[Any]:
        """Wait until `enough(values)`, and return the values."""
        wait_for(lambda: enough(self.values()), meanwhile=self.poll, said=self.values)
        return self.values()

    def first(self, wanted: Callable[[Any], object]) -> Any:
        """Wait for a value that is `wanted`, and return the first such."""
        return next(filter(wanted, self.until(lambda values: any(map(wanted, values)))))

    def read_to_end(self) -> list[ConsumerRecord]:
        """Read all that is there now, and return it in the order of partitions and offsets."""
        ends = self._consumer.end_offsets(self._assigned)
        wait_for(
            lambda: all(self._consumer.position(each) >= end for each, end in ends.items()),
            meanwhile=self.poll,
        )
        return sorted(self.records, key=lambda record: (record.topic, record.partition, record.offset))


class Requests:
    """Sends requests, and collects what is answered, by request id."""

    def __init__(
        self,
        config: dict[str, Any],
        requests: str,
        responses: str,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        self._topic = requests
        self._ids = itertools.count()
        self._resources = ExitStack()
        self.responses = self._resources.enter_context(Reader(config, responses, check=check))
        self.producer = KafkaProducer(**config, acks="all", linger_ms=0)
        self._resources.callback(self.producer.close)
        self.sent: dict[str, dict[str, Any]] = {}
        self.answered: dict[str, dict[str, Any]] = {}
        """The first answer to each request; a repeated one is the same."""
        self._read = 0
        self.ahead_ms: int | None = None
        """How far a broker's clock is ahead that stamps the records, where the topic has CreateTime."""

    def close(self) -> None:
        self._resources.close()

    def send(self, api: str, group_id: str, client_id: str = "c1", **fields: Any) -> str:
        """Send a request, and return its id once the broker has it."""
        request_id = f"{client_id}-{next(self._ids)}"
        request = {"api": api, "request_id": request_id, "client_id": client_id, "group_id": group_id}
        self.sent[request_id] = request | fields
        self.put(group_id.encode(), json.dumps(request | fields).encode())
        return request_id

    def join(self, group_id: str, client_id: str = "c1", **fields: Any) -> str:
        """Send a join with what most tests do not care about filled in."""
        defaults = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": "c3Vic2NyaXB0aW9u"}],
        }
        return self.send("join_group", group_id, client_id, **(defaults | fields))

    def put(self, key: bytes | None, value: bytes | None, **arguments: Any) -> None:
        """Put any record on the request topic."""
        if self.ahead_ms is not None:
            arguments["timestamp_ms"] = round(time.time() * 1000) + self.ahead_ms
        self.producer.send(self._topic, key=key, value=value, **arguments).get(PATIENCE_S)

    def hear(self, timeout_ms: int = 50) -> None:
        """Take in what has been answered."""
        self.responses.poll(timeout_ms)
        for record in self.responses.records[self._read :]:
            answer = json.loads(record.value)
            again = self.answered.setdefault(answer["request_id"], answer)
            # What could not be read may have been under any id.
            assert again == answer or answer["request_id"] not in self.sent, "a repeated answer is the same"
        self._read = len(self.responses.records)

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Go on hearing until it is so."""
        wait_for(condition, meanwhile=self.hear, said=lambda: self.answered)

    def answer(self, request_id: str) -> dict[str, Any]:
        """Wait for the answer to a request."""
        self.wait_until(lambda: request_id in self.answered)
        return self.answered[request_id]

    def call(self, api: str, group_id: str, client_id: str = "c1", **fields: Any) -> dict[str, Any]:
        """Send a request, and wait for its answer."""
        return self.answer(self.send(api, group_id, client_id, **fields))


@contextmanager
def sending(
    producer: KafkaProducer, topic: str, values: list[tuple[bytes, bytes]], pause_s: float
) -> Iterator[None]:
    """Send all of `values` again and again, with pauses, from a thread."""

    def send() -> None:
        for key, value in list(values):
            producer.send(topic, key=key, value=value)

    with repeating(send, pause_s):
        yield
