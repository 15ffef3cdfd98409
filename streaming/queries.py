"""The queries of one clock: they catch up with the log, and the last one goes on for good.

The first batch of a process takes seconds on a quiet machine and minutes on a busy one. The coordinator
answers nobody meanwhile. So that time belongs to the outage, and counts for no deadline. A query learns at
its start which times were outages. So there are several queries, one after the other:

1. One catches up with the log, with all time so far as an outage. If a batch was running when the process
   died, that one runs again first. It decides as it did before: the outage begins after all that it has read.
   If more batches than one were to come, many requests may have come meanwhile, and this is done again.
2. One goes on for good, in a warm JVM and warm Python workers. The time that catching up took was an outage
   as well.

If requests always come faster than they are read, the first step is repeated. A little of the time counts at
each repetition, so that deadlines still pass. Members whose heartbeats are read in between do not expire.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from group_coordinator.checkpoints.offset_log import newest_planned
from group_coordinator.checkpoints.outages import next_batch
from group_coordinator.jobs.health import Activity
from group_coordinator.jobs.java_errors import first_line, with_stack
from group_coordinator.streaming.clock import ClockStoppedError, Progress
from group_coordinator.streaming.clock_news import ClockNews
from group_coordinator.streaming.errors import CoordinatorError
from group_coordinator.streaming.group_limit import GroupLimit
from group_coordinator.streaming.noting import Noting, Reading
from group_coordinator.streaming.polling import Pause, Polling
from group_coordinator.streaming.quiet import Quietness
from group_coordinator.streaming.restarts import Restarts
from group_coordinator.streaming.timers import DeadlinesKnown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.streaming.query import StreamingQuery

    from group_coordinator.checkpoints.files import CheckpointFiles
    from group_coordinator.checkpoints.ledger import Notes
    from group_coordinator.jobs.signals import StopEvent
    from group_coordinator.streaming.clock import Clock
    from group_coordinator.streaming.corrections import Corrections
    from group_coordinator.streaming.metrics import Vitals
    from group_coordinator.streaming.probes import Probes
    from group_coordinator.streaming.settings import CoordinatorSettings
    from group_coordinator.streaming.topic_watch import TopicWatch

_log = logging.getLogger(__name__)

_LOOK_S = 0.2
_LOOK_WHILE_CATCHING_UP_S = 0.05


class Queries:
    """Begins them, each with the notes that it needs, and watches them.

    `start(notes, catches_up)` starts a query; see `start_query`.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - its parts, each of them once
        self,
        settings: CoordinatorSettings,
        files: CheckpointFiles,
        start: Callable[[Notes, bool], StreamingQuery],
        vitals: Vitals,
        topics: TopicWatch,
        probes: Probes,
        corrections: Corrections,
        stopping: StopEvent,
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._files = files
        self._start = start
        self._batches, self._health, self._counts = vitals.batches, vitals.health, vitals.counts
        self._topics = topics
        self._probes = probes
        self._corrections = corrections
        self._stopping = stopping
        self._say = say
        self._limit = GroupLimit(settings.max_groups)
        self.noting = Noting(settings, files, self._limit, vitals.metrics, say)
        self._news = ClockNews(settings.topics_clock, vitals.metrics, self._counts, say)
        self._restarts = Restarts(settings.stall_ms, settings.clock_max_gap_ms)
        self._quietness = Quietness(time.monotonic())
        self._known = DeadlinesKnown(self._counts.timers, settings.group.group_max_session_timeout_ms / 1000)
        self.newest: StreamingQuery | None = None
        """The one of this clock that has begun last."""
        self.have_begun = False
        """Whether there was one, of any clock."""

    def prepare(self) -> None:
        """Prepare to run, before a clock asks how that goes on."""
        self.newest = None
        self.noting.read()
        # When a batch of the query before has ended does not count.
        self._restarts.begins(catches_up=True)
        self._batches.restart()
        self._known.forget()

    @property
    def progress(self) -> Progress:
        """The answers to what their clock asks."""
        return Progress(
            self._stalled, self._ticks_caught_up, self._counts.timers, self._needs_few_ticks, self._probes
        )

    def run(self, clock: Clock) -> str | None:
        """Run one after the other; return why a new clock has to begin, or None when asked to stop.

        Raises `CheckpointError` if a topic is not the one that the checkpoint is about. Raises
        `CoordinatorError` if a query cannot start, or has failed.
        """
        try:
            self.noting.end_standstills(self._probes.healed(), clock)
            for reading in self._readings():
                ahead_ms = self._note(reading, clock)
                query = self._begin(reading, ahead_ms)
                reason = self._watch(query, clock, reading)
                if reason is not None or self._stopping.is_set():
                    return reason
        except ClockStoppedError as error:
            return str(error)
        return None

    def _readings(self) -> Iterator[Reading]:
        newest = newest_planned(self._files)
        reading = Reading(runs_again=newest is not None and not newest.is_committed)
        while True:
            before = newest
            yield reading
            newest = newest_planned(self._files)
            if next_batch(newest) - next_batch(before) <= 1:
                break
            reading = Reading(counts_ms=self._settings.clock_max_gap_ms, read_ms=self.noting.resumed_ms)
        yield Reading(catches_up=False)

    def _note(self, reading: Reading, clock: Clock) -> int:
        """Note all that a query has to know that begins now.

        Returns how far log time is ahead of the driver's clock.
        """
        # The outage begins later than a standstill would. So this has to be known of each partition.
        while self._probes.unknown() and not self._stopping.wait(_LOOK_WHILE_CATCHING_UP_S):
            self._health.does(Activity.STARTING)
            if clock.failure is not None:
                raise clock.failure
        now_ms = clock.now_ms
        asked_ms = {it: round(now_ms - ago_ms) for it, ago_ms in self._probes.silent().items()}
        self._corrections.begin(now_ms, runs_again=reading.runs_again)
        ahead_ms = self.noting.begin(reading, asked_ms, clock)
        self._probes.begin(self.noting.ledger.standing.keys())
        return ahead_ms

    def _begin(self, reading: Reading, ahead_ms: int) -> StreamingQuery:
        self._batches.restart()
        self._restarts.begins(catches_up=reading.catches_up, ahead_ms=ahead_ms)
        try:
            self.newest = self._start(self.noting.ledger.notes, reading.catches_up)
        except PySparkException as error:
            raise CoordinatorError(f"the query cannot start: {first_line(error)}") from error
        self.have_begun = True
        if reading.catches_up:
            self._say("catching up with the log")
        else:
            self._say("the coordinator is running")
        return self.newest

    def _watch(self, query: StreamingQuery, clock: Clock, reading: Reading) -> str | None:
        """Return why the query has to restart; None when asked to stop, or when it has caught up."""
        catches_up = reading.catches_up
        activity = Activity.CATCHING_UP if catches_up else Activity.COORDINATING
        polling = Polling(query)
        while not self._stopping.wait(_LOOK_WHILE_CATCHING_UP_S if catches_up else _LOOK_S):
            self._health.does(activity, self._restarts.patience_ms)
            now_s = time.monotonic()
            self._news.look(clock.skew_ms, now_s, broker_is_off=clock.broker_is_off)
            pause = self._quietness.look(self._counts.heard, self._counts.followed, now_s)
            polling.set(Pause.NONE if catches_up else pause)
            if self._batches.groups is not None:
                self._after_a_batch(self._batches.groups, clock, reading)
            if self._topics.failure is not None:
                clock.stop()
                query.stop()
                raise self._topics.failure
            if (failure := clock.failure) is not None:
                if self._batches.groups is None and self._stalled() is not None:
                    self._restarts.was_cut_short()
                return str(failure)
            changed = self._restarts.changed(
                self._probes.silent(), self._probes.healed(), clock.ahead_of_driver_ms
            )
            if changed is not None:
                return changed
            # The JVM is asked after that, since it may stand still.
            if not query.isActive:
                return self._why_ended(query, may_end=catches_up)
            if not catches_up and (groups := self._batches.groups) is not None:
                reason = self._limit.look(groups)
                if reason is not None:
                    return reason
        return None

    def _after_a_batch(self, groups: int, clock: Clock, reading: Reading) -> None:
        """Take in that the query has ended a batch, with which the state has so many groups."""
        if reading.runs_again:
            # The first one was that. Nothing that comes now is of it, unless another coordinator writes it.
            self._corrections.begin(clock.now_ms, runs_again=False)
        if not reading.catches_up:
            now_s = time.monotonic()
            self._known.look(groups, now_s, is_quiet=self._quietness.is_there(now_s))
        self._restarts.batch_ended()

    def _why_ended(self, query: StreamingQuery, *, may_end: bool) -> str | None:
        """Return why a query that has ended is to restart. Raises `CoordinatorError` if it is not to."""
        error = query.exception()
        if error is None:
            if may_end:
                return None
            raise CoordinatorError("the query was ended from outside")
        if self._restarts.is_conflict(str(error)):
            return "another coordinator has written to the checkpoint"
        _log.error("%s", with_stack(error))
        raise CoordinatorError(f"the query failed: {first_line(error)}")

    def _stalled(self) -> str | None:
        return self._restarts.stalled(self._batches.silent_ms, self._batches.behind_ms)

    def _needs_few_ticks(self) -> bool:
        """Whether no requests come, and deadlines are known, which have ticks of their own."""
        return self._known.all and self._quietness.is_there(time.monotonic())

    def _ticks_caught_up(self) -> int:
        return self._batches.caught_up.get(self._settings.topics_clock, {}).get(0, 0)
