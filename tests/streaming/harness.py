"""A coordinator under test: started and stopped at will, with producers and readers of its topics."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from group_coordinator.checkpoints.identity import PARTITIONS
from group_coordinator.checkpoints.ledger import Notes
from group_coordinator.checkpoints.restore import setting
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.stopping import stop_after_batch
from group_coordinator.streaming.clock import Clock
from group_coordinator.streaming.counts import Counts, CountsParam
from group_coordinator.streaming.function import FunctionArguments
from group_coordinator.streaming.query import start_query
from group_coordinator.streaming.schedule import Pace
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.topic_specs import prepare_topics
from tests.patience import PATIENCE_S
from tests.topics import Reader, Requests

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.checkpoints.ledger import Begun
    from group_coordinator.coordinator_state.outages import Outage

SECRET = b"a secret of the tests"

_numbers = itertools.count(1)


class Harness:
    """Topics of its own, a checkpoint of its own, and the query, which `start` and `stop` control."""

    def __init__(
        self, spark: SparkSession, bootstrap_servers: str, directory: Path, **settings: object
    ) -> None:
        self.spark = spark
        prefix = f"test{next(_numbers)}"
        self.settings: CoordinatorSettings = CoordinatorSettings.load(
            None,
            {},
            {
                "bootstrap.servers": bootstrap_servers,
                "checkpoint": str(directory / "checkpoint"),
                "create.topics": True,
                "requests.partitions": 2,
                "responses.partitions": 2,
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
        self._resources = ExitStack()
        self.query: StreamingQuery | None = None
        self.counts = spark.sparkContext.accumulator(Counts(), CountsParam())

    def __enter__(self) -> Self:
        self.partitions = prepare_topics(self.settings, self._client_config)
        requests = Requests(
            self._client_config,
            self.settings.topics_requests,
            self.settings.topics_responses,
            check=self.fail_if_query_failed,
        )
        self._resources.callback(requests.close)
        self.responses, self.producer = requests.responses, requests.producer
        self.send, self.put, self.join = requests.send, requests.put, requests.join
        self.answer, self.call = requests.answer, requests.call
        self.events = self._reader(self.settings.topics_events)
        self.groups = self._reader(self.settings.topics_groups)
        self.offsets = self._reader(self.settings.topics_offsets)
        self.rejected = self._reader(self.settings.topics_rejected)
        return self

    def __exit__(self, *_: object) -> None:
        if self.query is not None and self.query.isActive:
            self.query.stop()
        self._resources.close()

    def _reader(self, topic: str) -> Reader:
        reader = Reader(self._client_config, topic, check=self.fail_if_query_failed)
        return self._resources.enter_context(reader)

    # -- the coordinator -------------------------------------------------------------------------

    def start(
        self, *, clock: bool = True, outages: Iterable[Outage] = (), begun: Iterable[Begun] = ()
    ) -> None:
        """Start the query, from where it was, with these notes."""
        if clock:
            self._resources.enter_context(
                Clock(self.settings.topics_clock, Pace.of(self.settings), self._client_config, "harness")
            ).resume()
        notes = Notes(tuple(outages), begun=tuple(begun))
        arguments = FunctionArguments.of(self.settings, SECRET, self.partitions, notes)
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

    def fail_if_query_failed(self) -> None:
        """Raise what ended the query, if it has ended by itself."""
        if self.query is not None and (error := self.query.exception()) is not None:
            raise error
