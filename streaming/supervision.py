"""The supervision of the queries: a new clock begins when one has stopped, which ends an outage.

A clock stops because Kafka or this process was away, because its query is of no use any more, or because
another coordinator has begun. All that follows is the same: the time until the next query begins is an
outage (`queries.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.checkpoints.outages import reached_ms
from group_coordinator.jobs.health import Activity
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.stopping import stop_after_batch
from group_coordinator.streaming.clock import Clock
from group_coordinator.streaming.schedule import Pace
from group_coordinator.streaming.ticks import TickReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from group_coordinator.jobs.health import Health
    from group_coordinator.streaming.leadership import Leadership
    from group_coordinator.streaming.queries import Queries
    from group_coordinator.streaming.settings import CoordinatorSettings

# A batch that has not ended by then is stuck; supervisors send SIGKILL after 30 s or so.
_STOP_TIMEOUT_S = 20


class Supervision:
    """Runs queries of one checkpoint until asked to stop."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        spark: SparkSession,
        leadership: Leadership,
        health: Health,
        queries: Queries,
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
        self._spark = spark
        self._leadership = leadership
        self._stopping = leadership.stopping
        self._health = health
        self._queries = queries
        self._say = say
        self._look_from: int | None = None
        """The offset of the tick from which on another coordinator may have begun."""

    def run(self) -> None:
        """Coordinate until asked to stop; it is this process's turn."""
        run = self._run_once
        while not self._stopping.is_set():
            with self._leadership.waiting_for_kafka(lambda: self._queries.have_begun):
                run()
            run = self._run_again

    def _run_again(self) -> None:
        with TickReader(self._settings.topics_clock, self._client_config, self._look_from) as ticks:
            self._leadership.await_turn(ticks)
        if not self._stopping.is_set():
            self._run_once()

    def _run_once(self) -> None:
        """Run until asked to stop, or until a new clock has to begin."""
        self._health.does(Activity.STARTING)
        self._queries.prepare()
        with self._new_clock() as clock, self._leadership.leading(clock):
            reason = self._queries.run(clock)
            query = self._queries.newest
            if query is not None and reason is None:
                self._say("stopping after the running batch")
                self._health.does(Activity.STOPPING)
                stop_after_batch(self._spark, query, _STOP_TIMEOUT_S)
            else:
                # At once: another coordinator may be running. The batch runs again, with the same answers.
                self._say(f"restarting the query: {reason}")
                self._health.does(Activity.RESTARTING)
                clock.stop()
                self._look_from = clock.look_from
                if query is not None:
                    # Takes a minute while Kafka is away.
                    query.stop()
                self._health.does(Activity.RESTARTING)

    def _new_clock(self) -> Clock:
        return Clock(
            self._settings.topics_clock,
            Pace.of(self._settings),
            self._client_config,
            self._leadership.coordinator,
            self._queries.progress,
            reached_ms(self._queries.noting.ledger),
            self._leadership.alive_at,
        )
