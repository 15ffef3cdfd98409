"""Requests by hand to a coordinator that runs as a process."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.commands.job import Job
from tests.patience import PATIENCE_S


class Requests:
    """Sends requests and collects what is answered, by request id."""

    def __init__(self, bootstrap_servers: str, topics: dict[str, str]) -> None:
        self._topic = topics["requests"]
        self._producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")
        self._consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
        partitions = self._consumer.partitions_for_topic(topics["responses"]) or set()
        self._consumer.assign([TopicPartition(topics["responses"], each) for each in partitions])
        self._ids = itertools.count()
        self.sent: dict[str, dict[str, Any]] = {}
        self.answered: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()

    def send(self, api: str, group_id: str, **fields: Any) -> str:
        request_id = f"r{next(self._ids)}"
        request = {"api": api, "request_id": request_id, "client_id": "c", "group_id": group_id} | fields
        self._producer.send(self._topic, key=group_id.encode(), value=json.dumps(request).encode())
        self.sent[request_id] = request
        return request_id

    def hear(self, timeout_ms: int = 0) -> None:
        for records in self._consumer.poll(timeout_ms=timeout_ms).values():
            for record in records:
                answer = json.loads(record.value)
                again = self.answered.setdefault(answer["request_id"], answer)
                assert again == answer, "an answer that is repeated is the same"

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come to that in time"
            self.hear(timeout_ms=50)

    def call(self, api: str, group_id: str, **fields: Any) -> dict[str, Any]:
        request_id = self.send(api, group_id, **fields)
        self.wait_until(lambda: request_id in self.answered)
        return self.answered[request_id]


@contextmanager
def requests_to(bootstrap_servers: str, job: Job) -> Iterator[Requests]:
    requests = Requests(bootstrap_servers, job.topics)
    try:
        yield requests
    finally:
        requests.close()
