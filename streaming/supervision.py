"""The supervision of the queries: it restarts the query when the clock has stopped, which ends an outage.

The first batch of a process takes seconds on a quiet machine and minutes on a busy one. The coordinator
answers nobody meanwhile. So that time belongs to the outage, and counts for no deadline. A query learns at
its start which times were outages. So the supervision starts several queries, one after the other:

1. It catches up with the log, with all time so far as an outage. If a batch was running when the process
   died, that one runs again first. It decides as it did before: the outage begins after all that it has read.
   If more batches than one were to come, many requests may have come meanwhile, and it does this again.
2. It starts the query that goes on for good, in a warm JVM and warm Python workers. The time that catching up
   took was an outage as well.

It restarts this last query in the same way if that has not read all requests for long. If requests always
come faster than they are read, it repeats the first step. A little of the time counts at each repetition, so
that deadlines still pass. Members whose heartbeats are read in between do not expire.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kafka.errors import AuthorizationError, KafkaError, SaslAuthenticationFailedError
from pyspark.errors import PySparkException

from group_coordinator.checkpoints.ledger import Ledger, Notes
from group_coordinator.checkpoints.offset_log import newest_planned
from group_coordinator.checkpoints.outages import next_batch, note_begin, reached_ms
from group_coordinator.checkpoints.standing import note_standstills
from group_coordinator.checkpoints.times import append_times
from group_coordinator.jobs.health import Activity
from group_coordinator.jobs.java_errors import first_line, with_stack
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.stopping import stop_after_batch
from group_coordinator.streaming.clock import Clock, ClockStoppedError, Progress
from group_coordinator.streaming.corrections import Corrections
from group_coordinator.streaming.errors import CoordinatorError
from group_coordinator.streaming.group_limit import GroupLimit
from group_coordinator.streaming.polling import Pause, Polling
from group_coordinator.streaming.quiet import Quietness
from group_coordinator.streaming.ticks import TickReader
from group_coordinator.streaming.timers import Known
from group_coordinator.streaming.wrong_clocks import WrongClocks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.checkpoints.files import CheckpointFiles
    from group_coordinator.checkpoints.offset_log import PlannedBatch
    from group_coordinator.jobs.settings import Settings
    from group_coordinator.streaming.leadership import Leadership
    from group_coordinator.streaming.metrics import Watch
    from group_coordinator.streaming.probes import Probes
    from group_coordinator.streaming.topic_watch import TopicWatch

__all__ = ["Supervision"]

_log = logging.getLogger(__name__)

# A batch that has not ended by then is stuck; supervisors send SIGKILL after 30 s or so.
_STOP_TIMEOUT_S = 20
_LOOK_S = 0.2
_LOOK_WHILE_CATCHING_UP_S = 0.05
_CATCH_UP_MS = 120_000
"""A batch that takes longer, while no time passes, may be stuck: it runs again, with twice the time."""
_CONFLICT = "[CONCURRENT_STREAM_LOG_UPDATE]"
"""Spark's error condition for a batch that somebody else has planned, or committed."""
_MOST_CONFLICTS = 3
"""With more, and no batch between them, the other writer is no coordinator that will notice and stop."""


class _Reading(NamedTuple):
    """How a query reads.

    `catches_up`: it ends with what the log has when it begins. `runs_again`: the batch comes first that is
    planned and not committed. `counts_ms`: how much of the time before it counts for deadlines. `read_ms`: up
    to which time all requests were read; deadlines that are due later wait until all are.
    """

    catches_up: bool = True
    runs_again: bool = False
    counts_ms: int = 0
    read_ms: int = 0


class Supervision:
    """Runs queries of one checkpoint until asked to stop.

    `start(notes, catches_up)` starts a query; see `start_query`.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - its parts, each of them once
        self,
        settings: Settings,
        files: CheckpointFiles,
        spark: SparkSession,
        start: Callable[[Notes, bool], StreamingQuery],
        leadership: Leadership,
        watch: Watch,
        topics: TopicWatch,
        probes: Probes,
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
        self._files = files
        self._ledger = Ledger(files, Notes())
        self._spark = spark
        self._start = start
        self._leadership = leadership
        self._batches, self._health, self._metrics, self._counts = watch
        self._topics = topics
        self._probes = probes
        self._corrections = Corrections.of(settings, self._client_config, files)
        self._say = say
        self._stopping = leadership.stopping
        self._resumed_ms = 0
        """The end of the newest outage."""
        self._look_from: int | None = None
        """The offset of the tick from which on another coordinator may have begun."""
        self._limit = GroupLimit(settings.max_groups)
        self._activity = Activity.CATCHING_UP
        self._least_ms = {Activity.CATCHING_UP: _CATCH_UP_MS, Activity.COORDINATING: settings.stall_ms}
        self._patience_ms = dict(self._least_ms)
        self._has_begun = False
        """Whether there was a query. Before that Kafka may be the wrong one, and after it only away."""
        self._conflicts = 0
        """How often the query has ended by a conflict since the last batch that ended."""
        self._ahead_ms = 0
        """How far log time was ahead of this machine's clock when the newest query began."""
        self._clocks = WrongClocks()
        self._broker_is_off = False
        """Whether it was told that the clock of the ticks' broker is wrong."""
        self._quietness = Quietness(time.monotonic())
        self._known = Known(self._counts.timers, settings.group.group_max_session_timeout_ms / 1000)

    def run(self) -> None:
        """Coordinate until asked to stop; it is this process's turn."""
        with self._corrections:
            with self._waiting_for_kafka():
                self._run_once()
            while not self._stopping.is_set():
                with self._waiting_for_kafka():
                    self._run_again()

    def _run_again(self) -> None:
        with TickReader(self._settings.topics_clock, self._client_config, self._look_from) as ticks:
            self._leadership.await_turn(ticks)
        if not self._stopping.is_set():
            self._run_once()

    @contextmanager
    def _waiting_for_kafka(self) -> Iterator[None]:
        """Wait for a moment if Kafka is away; once there was a query it was there, so it will be again."""
        try:
            yield
        except (AuthorizationError, SaslAuthenticationFailedError):
            raise
        except KafkaError as error:
            if not self._has_begun:
                raise
            self._say(f"waiting for Kafka at {self._settings.bootstrap_servers}: {error}")
            self._health.does(Activity.WAITING_FOR_KAFKA)
            self._stopping.wait(_LOOK_S)

    def _run_once(self) -> None:
        """Run until asked to stop, or until a new query has to begin."""
        self._health.does(Activity.STARTING)
        # Another coordinator may have noted something since this one did.
        self._ledger = Ledger.read(self._files)
        # Before the clock asks whether batches end. When one of the query before has ended does not count.
        self._activity = Activity.CATCHING_UP
        self._batches.restart()
        self._known.forget()
        with self._new_clock() as clock, self._corrections.during(lambda: clock.failure is None):
            query, reason = self._run_queries(clock)
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
        progress = Progress(
            self._stalled,
            self._ticks_caught_up,
            self._counts.timers,
            self._probes.unwritten_ms,
            self._probes.tick,
            self._needs_few_ticks,
        )
        return Clock.of(
            self._settings,
            self._client_config,
            self._leadership.coordinator,
            progress,
            reached_ms(self._ledger),
            self._leadership.alive_at,
        )

    def _run_queries(self, clock: Clock) -> tuple[StreamingQuery | None, str | None]:
        """Run one query after the other, until asked to stop, or until a new clock has to begin.

        Returns the newest query, and why a new clock has to begin.
        """
        query: StreamingQuery | None = None
        try:
            self._probes.clock_begins()
            self._end_standstills(clock)
            for reading in self._readings():
                self._note(reading, clock)
                query = self._begin(reading)
                reason = self._watch(query, clock, reading)
                if reason is not None or self._stopping.is_set():
                    return query, reason
        except ClockStoppedError as error:
            return query, str(error)
        return query, None

    def _note(self, reading: _Reading, clock: Clock) -> None:
        """Note all that a query has to know that begins now."""
        silent = self._silent(clock)
        self._corrections.begin(clock.now_ms, runs_again=reading.runs_again)
        self._note_begin(reading, clock)
        self._begin_standstills(silent)

    def _readings(self) -> Iterator[_Reading]:
        newest = newest_planned(self._files)
        reading = _Reading(runs_again=newest is not None and not newest.is_committed)
        while True:
            before = newest
            yield reading
            newest = newest_planned(self._files)
            if _number(newest) - _number(before) <= 1:
                break
            reading = _Reading(counts_ms=self._settings.clock_max_gap_ms, read_ms=self._resumed_ms)
        yield _Reading(catches_up=False)

    def _silent(self, clock: Clock) -> Mapping[int, int]:
        """The request partitions that take no requests, and the log time since which each was asked.

        Waits until it is known of each.
        """
        while (silent := self._probes.settle(self._ledger.standing.keys())) is None:
            self._health.does(Activity.STARTING)
            if clock.failure is not None:
                raise clock.failure
            if self._stopping.wait(_LOOK_WHILE_CATCHING_UP_S):
                return {}
        now_ms = clock.now_ms
        return {partition: round(now_ms - asked_ms) for partition, asked_ms in silent.items()}

    def _note_begin(self, reading: _Reading, clock: Clock) -> None:
        """Note that a query begins, and what has passed until now as an outage."""
        self._resumed_ms = 0

        def resumed() -> tuple[int, int]:
            # As late as can be. A query that begins long after the clock has stopped would plan a batch
            # without knowing of the time since.
            self._resumed_ms = clock.hold(reading.read_ms) if reading.catches_up else clock.resume()
            return self._resumed_ms, clock.ahead_of_driver_ms

        begun = note_begin(
            self._ledger,
            resumed,
            later_ms=self._settings.leeway.later_ms,
            catches_up=reading.catches_up,
            counts_ms=reading.counts_ms,
            closed=self._limit.is_closed,
        )
        self._ahead_ms = begun.ahead_ms
        outages = self._ledger.outages
        self._limit.is_closed = bool(outages) and outages[-1].closed
        self._metrics.closed.set(self._limit.is_closed)
        if outages and outages[-1].end_ms == self._resumed_ms:
            goes_on = not reading.catches_up or reading.counts_ms > 0
            self._metrics.outage(outages[-1], is_longer=goes_on)

    def _begin_standstills(self, silent: Mapping[int, int]) -> None:
        """Note that these partitions take no requests, before anything more of their groups is decided.

        `silent`: since when each was asked, in log time.
        """
        topic = self._settings.topics_requests
        for partition in note_standstills(
            self._ledger,
            topic,
            silent,
            partial(append_times, self._client_config, topic),
            later_ms=self._settings.leeway.later_ms,
            look_back_ms=self._settings.look_back_ms,
        ):
            self._say(f"request partition {partition} takes no requests: time stands still for its groups")
        self._probes.begin(self._ledger.standing.keys())
        self._metrics.standing.set(len(self._ledger.standing))

    def _end_standstills(self, clock: Clock) -> None:
        """Note which partitions take requests again, before anything of their groups is decided."""
        if healed := self._probes.healed():
            batch = next_batch(newest_planned(self._files))
            for it in self._ledger.end_standstills(healed, clock.now_ms, batch):
                took_ms = (it.end_ms or it.start_ms) - it.start_ms
                self._say(
                    f"request partition {it.partition} takes requests again, after {took_ms / 1000:.1f} s"
                )

    def _tell_skew(self, clock: Clock) -> None:
        self._metrics.clock_skew.set(clock.skew_ms / 1000)
        if clock.broker_is_off is not self._broker_is_off:
            self._broker_is_off = clock.broker_is_off
            topic = self._settings.topics_clock
            if self._broker_is_off:
                self._say(
                    f"the clock of the leader of topic {topic} differs from log time by "
                    f"{clock.skew_ms / 1000:+.1f} s: log time goes on without it"
                )
            else:
                self._say(f"the clock of the leader of topic {topic} is right again")

    def _tell_clocks(self) -> None:
        for partition, is_wrong, ahead_s in self._clocks.look(self._counts, time.monotonic()):
            if is_wrong:
                self._say(
                    f"the clock of request partition {partition}'s leader is wrong by {ahead_s:+.1f} s: "
                    "its requests count as of now"
                )
            else:
                self._say(f"the clock of request partition {partition}'s leader is right again")

    def _begin(self, reading: _Reading) -> StreamingQuery:
        self._batches.restart()
        self._activity = Activity.CATCHING_UP if reading.catches_up else Activity.COORDINATING
        try:
            query = self._start(self._ledger.notes, reading.catches_up)
        except PySparkException as error:
            raise CoordinatorError(f"the query cannot start: {first_line(error)}") from error
        self._has_begun = True
        if reading.catches_up:
            self._say("catching up with the log")
        else:
            self._say("the coordinator is running")
        return query

    def _watch(self, query: StreamingQuery, clock: Clock, reading: _Reading) -> str | None:
        """Return why the query has to restart; None when asked to stop, or when it has caught up.

        Raises `CheckpointError` if a topic is not the one that the checkpoint is about.
        """
        is_catching_up = reading.catches_up
        polling = Polling(query)
        while not self._stopping.wait(_LOOK_WHILE_CATCHING_UP_S if is_catching_up else _LOOK_S):
            self._health.does(self._activity, self._patience_ms[self._activity])
            self._tell_skew(clock)
            self._tell_clocks()
            pause = self._quietness.look(self._counts.heard, self._counts.followed, time.monotonic())
            polling.set(Pause.NONE if is_catching_up else pause)
            if self._batches.groups is not None:
                self._after_a_batch(self._batches.groups, clock, reading)
            if self._topics.failure is not None:
                clock.stop()
                query.stop()
                raise self._topics.failure
            failure = clock.failure
            if failure is not None:
                if self._batches.groups is None and self._stalled() is not None:
                    # Given more time again and again, the longest of first batches ends some day.
                    self._patience_ms[self._activity] *= 2
                return str(failure)
            if (reason := self._has_changed(clock)) is not None:
                return reason
            # The JVM is asked after that, since it may stand still.
            if not query.isActive:
                return self._why_ended(query, may_end=is_catching_up)
            if not is_catching_up and (groups := self._batches.groups) is not None:
                reason = self._limit.look(groups)
                if reason is not None:
                    return reason
        return None

    def _after_a_batch(self, groups: int, clock: Clock, reading: _Reading) -> None:
        """Take in that the query has ended a batch, with which the state has so many groups."""
        if reading.runs_again:
            # The first one was that. Nothing that comes now is of it, unless another coordinator writes it.
            self._corrections.begin(clock.now_ms, runs_again=False)
        if not reading.catches_up:
            self._known.look(groups, is_quiet=self._is_quiet())
        self._conflicts = 0
        self._patience_ms[self._activity] = self._least_ms[self._activity]

    def _has_changed(self, clock: Clock) -> str | None:
        """Return why the query has to restart: what it was told when it began is not true any more."""
        is_coordinating = self._activity is Activity.COORDINATING
        if is_coordinating and (stuck := self._probes.stuck()):
            self._probes.restarted()
            return f"{_partitions(stuck)} no requests"
        if healed := self._probes.healed():
            return f"{_partitions(healed)} requests again"
        if abs(clock.ahead_of_driver_ms - self._ahead_ms) > self._settings.clock_max_gap_ms:
            # The plans of its batches have the time of this clock.
            return "this machine's clock and log time have come apart"
        return None

    def _why_ended(self, query: StreamingQuery, *, may_end: bool) -> str | None:
        """Return why a query that has ended is to restart. Raises `CoordinatorError` if it is not to."""
        error = query.exception()
        if error is None:
            if may_end:
                return None
            raise CoordinatorError("the query was ended from outside")
        if _CONFLICT in str(error) and self._conflicts < _MOST_CONFLICTS:
            # A coordinator that was paused has ended its batch when it woke up, before it could know of this
            # one. Its answers were the same. The clock tells which of the two goes on.
            self._conflicts += 1
            return "another coordinator has written to the checkpoint"
        _log.error("%s", with_stack(error))
        raise CoordinatorError(f"the query failed: {first_line(error)}")

    def _stalled(self) -> str | None:
        """Return why batches are of no use any more: they do not end, or never read all there is."""
        patience_ms = self._patience_ms[self._activity]
        if self._batches.silent_ms > patience_ms:
            return "no batch has ended in time"
        if self._activity is Activity.COORDINATING and self._batches.behind_ms > patience_ms:
            return "requests come faster than they are read"
        return None

    def _is_quiet(self) -> bool:
        return self._activity is Activity.COORDINATING and self._quietness.is_there(time.monotonic())

    def _needs_few_ticks(self) -> bool:
        """Whether no requests come, and deadlines are known, which have ticks of their own."""
        # If Kafka is away the clock has to notice before the probes do, or partitions would stand still.
        return self._is_quiet() and self._known.all and self._probes.answers()

    def _ticks_caught_up(self) -> int:
        return self._batches.caught_up.get(self._settings.topics_clock, {}).get(0, 0)


def _number(planned: PlannedBatch | None) -> int:
    return -1 if planned is None else planned.batch_id


def _partitions(numbers: Collection[int]) -> str:
    """The subject and the verb of a line."""
    listed = ", ".join(map(str, sorted(numbers)))
    return f"request partition {listed} takes" if len(numbers) == 1 else f"request partitions {listed} take"
