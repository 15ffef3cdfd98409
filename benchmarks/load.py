"""The load generator: runs in a process of its own, so that it is not what is measured."""

from __future__ import annotations

import time
from contextlib import closing
from typing import NamedTuple

import msgspec
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

_PATIENCE_S = 60
_LOOK_EVERY_S = 0.01


class Request(NamedTuple):
    """An encoded request."""

    request_id: str
    key: bytes
    value: bytes


class Load(NamedTuple):
    """Where requests go, and on which partition of which topic the answers come."""

    bootstrap_servers: str
    request_topic: str
    response_topic: str
    response_partition: int


class _Answer(msgspec.Struct):
    request_id: str
    error: str = "NONE"


def closed_loop(load: Load, requests: list[Request]) -> list[float]:
    """Send each request when the one before is answered; return the round trips in ms."""
    with closing(producer(load)) as out, closing(reader(load)) as answers_in:
        trips = []
        for request in requests:
            sent = time.perf_counter()
            out.send(load.request_topic, key=request.key, value=request.value)
            trips.append((_arrivals(answers_in, {request.request_id})[request.request_id] - sent) * 1000)
        return trips


def twin_loop(load: Load, requests: list[tuple[Request, Request]]) -> list[float]:
    """As `closed_loop`, of pairs: the second is sent when the first is answered, and both are one trip."""
    trips = closed_loop(load, [each for pair in requests for each in pair])
    return [first + second for first, second in zip(trips[::2], trips[1::2], strict=True)]


def call(load: Load, requests: list[Request]) -> list[bytes]:
    """Send the requests together and return the answers in the order of the requests."""
    with closing(reader(load)) as answers_in:
        write_requests(load, requests)
        answers: dict[str, bytes] = {}
        _arrivals(answers_in, {request.request_id for request in requests}, answers)
        return [answers[request.request_id] for request in requests]


def write_requests(load: Load, requests: list[Request]) -> None:
    """Write the requests, as fast as may be; when it returns the broker has them."""
    with closing(producer(load)) as out:
        for request in requests:
            out.send(load.request_topic, key=request.key, value=request.value)
        out.flush()


class Answers:
    """Those from now on: first how many there are, which takes next to nothing, and then what they say."""

    def __init__(self, load: Load) -> None:
        self._reader = reader(load)
        self._partition = TopicPartition(load.response_topic, load.response_partition)
        self._begin = self._reader.position(self._partition)

    def close(self) -> None:
        """Read no more."""
        self._reader.close()

    def wait_for(self, count: int) -> None:
        """Wait until there are so many."""
        deadline = time.perf_counter() + _PATIENCE_S
        while self._reader.end_offsets([self._partition])[self._partition] < self._begin + count:
            if time.perf_counter() > deadline:
                raise TimeoutError(f"there are less than {count} answers")
            time.sleep(_LOOK_EVERY_S)

    def read(self, request_ids: set[str]) -> None:
        """Read on until all of them are answered, without an error."""
        _arrivals(self._reader, request_ids)


def producer(load: Load) -> KafkaProducer:
    """Sends each request as it comes."""
    return KafkaProducer(bootstrap_servers=load.bootstrap_servers, acks="all", linger_ms=0)


def reader(load: Load) -> KafkaConsumer:
    """Reads the answers from now on. Long polls: one is here the moment the broker has it."""
    reader = KafkaConsumer(bootstrap_servers=load.bootstrap_servers, group_id=None, fetch_max_wait_ms=5_000)
    partition = TopicPartition(load.response_topic, load.response_partition)
    reader.assign([partition])
    reader.seek_to_end(partition)
    reader.position(partition)
    return reader


def _arrivals(
    reader: KafkaConsumer, wanted: set[str], answers: dict[str, bytes] | None = None
) -> dict[str, float]:
    """When each of the wanted answers came. Given `answers`, they are put there, whatever they say."""
    arrivals: dict[str, float] = {}
    deadline = time.perf_counter() + _PATIENCE_S
    while wanted:
        batch = reader.poll(timeout_ms=1_000)
        now = time.perf_counter()
        for record in (record for records in batch.values() for record in records):
            answer = msgspec.json.decode(record.value, type=_Answer)
            if answer.request_id not in wanted:
                continue
            if answers is not None:
                answers[answer.request_id] = record.value
            elif answer.error != "NONE":
                raise RuntimeError(f"answered with {answer.error}")
            wanted.remove(answer.request_id)
            arrivals[answer.request_id] = now
            deadline = now + _PATIENCE_S
        if now > deadline:
            raise TimeoutError(f"{len(wanted)} requests are not answered")
    return arrivals
