"""A coordinator under test: started and stopped at will, with producers and readers of its topics."""

from __future__ import annotations

import itertools
import json
import time
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from group_coordinator.checkpoints.identity import PARTITIONS
from group_coordinator.checkpoints.restore import setting
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.settings import Settings
from group_coordinator.jobs.stopping import stop_after_batch
from group_coordinator.streaming.clock import Clock
from group_coordinator.streaming.counts import Counts, CountsParam
from group_coordinator.streaming.function import FunctionArguments
from group_coordinator.streaming.query import start_query
from group_coordinator.streaming.topics import prepare_topics
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from kafka.consumer.fetcher import ConsumerRecord
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SECRET = b"a secret of the tests"

_numbers = itertools.count(1)


class Harness:
    """Topics of its own, a checkpoint of its own, and the query, which `start` and `stop` control."""

    def __init__(
        self, spark: SparkSession, bootstrap_servers: str, directory: Path, **settings: object
    ) -> None:
        self.spark = spark
        prefix = f"test{next(_numbers)}"
        self.settings: Settings = Settings.load(
            None,
            {},
            {
                "bootstrap.servers": bootstrap_servers,
                "checkpoint": str(directory / "checkpoint"),
                "create.topics": True,
                "requests.partitions": 2,
                "responses.partitions": 2,
                "clock.interval.ms": 200,
                # On a busy machine time goes on, too.
                "clock.max.gap.ms": 60_000,
                "state.partitions": 2,
                "group.initial.rebalance.delay.ms": 0,
                **{
                    f"topics.{name}": f"{prefix}.{name}"
                    for name in ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
                },
                **{name.replace("_", "."): value for name, value in settings.items()},
            },
        )
        self._client_config = python_client_config(bootstrap_servers, {})
        self._ids = itertools.count(1)
        self._resources = ExitStack()
        self.query: StreamingQuery | None = None
        self.counts = spark.sparkContext.accumulator(Counts(), CountsParam())

    def __enter__(self) -> Self:
        self.partitions = prepare_topics(self.settings, self._client_config)
        self.responses = self._reader(self.settings.topics_responses)
        self.events = self._reader(self.settings.topics_events)
        self.groups = self._reader(self.settings.topics_groups)
        self.offsets = self._reader(self.settings.topics_offsets)
        self.rejected = self._reader(self.settings.topics_rejected)
        return self

    def __exit__(self, *_: object) -> None:
        if self.query is not None and self.query.isActive:
            self.query.stop()
        self._resources.close()

    @cached_property
    def producer(self) -> KafkaProducer:
        producer = KafkaProducer(**self._client_config, acks="all", linger_ms=0)
        self._resources.callback(producer.close)
        return producer

    def _reader(self, topic: str) -> Reader:
        reader = Reader(topic, self.partitions[topic], self._client_config)
        self._resources.callback(reader.close)
        return reader

    # -- the coordinator -------------------------------------------------------------------------

    def start(self, *, clock: bool = True) -> None:
        """Start the query, from where it was."""
        if clock:
            self._resources.enter_context(Clock.of(self.settings, self._client_config, "harness"))
        arguments = FunctionArguments.of(self.settings, SECRET, self.partitions)
        with setting(self.spark, PARTITIONS, str(self.settings.state_partitions)):
            self.query = start_query(self.spark, self.settings, arguments, self.counts.add)

    def start_and_warm_up(self) -> None:
        """Start the query, and wait for an answer: the first batch of a session takes seconds, in which
        sessions would run out.
        """
        self.start()
        self.call("heartbeat", "warm-up", member_id="m", generation_id=0)

    def stop(self) -> bool:
        """Stop the query after its batch, as the long-lived job does."""
        assert self.query is not None
        return stop_after_batch(self.spark, self.query, PATIENCE_S)

    # -- requests and answers --------------------------------------------------------------------

    def send(self, api: str, group_id: str, client_id: str = "c1", **fields: Any) -> str:
        """Send a request and return its id once the broker has it."""
        request_id = f"{client_id}-{next(self._ids)}"
        request = {
            "api": api,
            "request_id": request_id,
            "client_id": client_id,
            "group_id": group_id,
            **fields,
        }
        self.send_raw(group_id.encode(), json.dumps(request).encode())
        return request_id

    def send_raw(self, key: bytes | None, value: bytes | None, **arguments: Any) -> None:
        """Put any record on the request topic."""
        self.producer.send(self.settings.topics_requests, key=key, value=value, **arguments).get(PATIENCE_S)

    def answer(self, request_id: str) -> dict[str, Any]:
        """Wait for the answer to a request."""
        return self.responses.first(lambda response: response["request_id"] == request_id, self)

    def call(self, api: str, group_id: str, client_id: str = "c1", **fields: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        return self.answer(self.send(api, group_id, client_id, **fields))

    def join(self, group_id: str, client_id: str, **fields: Any) -> str:
        """Send a join with what most tests do not care about filled in."""
        defaults = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": "c3Vic2NyaXB0aW9u"}],
        }
        return self.send("join_group", group_id, client_id, **(defaults | fields))

    def fail_if_query_failed(self) -> None:
        """Raise what ended the query, if it has ended by itself."""
        if self.query is not None and (error := self.query.exception()) is not None:
            raise error


class Reader:
    """All records of a topic from the beginning, read as they come and kept."""

    def __init__(self, topic: str, partitions: int, client_config: dict[str, Any]) -> None:
        self.records: list[ConsumerRecord] = []
        self._consumer = KafkaConsumer(**client_config, group_id=None, enable_auto_commit=False)
        assigned = [TopicPartition(topic, number) for number in range(partitions)]
        self._consumer.assign(assigned)
        self._consumer.seek_to_beginning(*assigned)
        # So that it is connected: kafka-python 3.0.12 leaks the socket of a client closed while it connects.
        self._consumer.end_offsets(assigned)

    def close(self) -> None:
        self._consumer.close()

    def poll(self) -> None:
        """Take in what has come."""
        for records in self._consumer.poll(timeout_ms=100).values():
            self.records += records

    def values(self) -> list[Any]:
        """The values so far, decoded; None for a tombstone."""
        return [record.value and json.loads(record.value) for record in self.records]

    def first(self, wanted: Any, harness: Harness) -> Any:
        """Wait for a value that is `wanted`, and return the first such."""
        seen = 0
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for record in self.records[seen:]:
                value = record.value and json.loads(record.value)
                if wanted(value):
                    return value
            seen = len(self.records)
            harness.fail_if_query_failed()
            self.poll()
        raise AssertionError(f"nothing wanted among {self.values()}")

    def until(self, enough: Any, harness: Harness) -> list[Any]:
        """Wait until `enough(values)`, and return the values."""
        deadline = time.monotonic() + PATIENCE_S
        while not enough(self.values()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not enough: {self.values()}")
            harness.fail_if_query_failed()
            self.poll()
        return self.values()
