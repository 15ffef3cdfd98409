"""When a query restarts, and how long it is given: with queries and a clock that do as the test says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any, Self

import pytest
from kafka.errors import KafkaConnectionError, KafkaError
from prometheus_client import CollectorRegistry

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.ledger import Ledger
from group_coordinator.checkpoints.shifts import Guard, Measured, Shift, Shifts
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.standstills import Standstill
from group_coordinator.jobs.batches import BatchWatch
from group_coordinator.jobs.health import Health
from group_coordinator.jobs.settings import Settings
from group_coordinator.jobs.signals import StopEvent
from group_coordinator.streaming import supervision
from group_coordinator.streaming.clock import ClockStoppedError, Progress
from group_coordinator.streaming.counts import Counts
from group_coordinator.streaming.errors import CoordinatorError
from group_coordinator.streaming.metrics import JobMetrics, Watch
from group_coordinator.streaming.polling import Pause
from group_coordinator.streaming.supervision import Supervision
from tests.checkpoints.in_memory import Files
from tests.jobs.progress import progress

CLOCK = "the clock of the leader of topic coordinator.clock"


class Query:
    """Ends when the test says so."""

    def __init__(self, catches_up: bool) -> None:
        self.catches_up = catches_up
        self.isActive = True

        self.error: Any = None

    def exception(self) -> Any:
        return self.error

    def stop(self) -> None:
        self.isActive = False


class FakeClock:
    """Fails as soon as batches have stalled. `now_ms` goes on with each look, from `times` on."""

    def __init__(self, stalled: Callable[[], str | None], times: Iterator[int]) -> None:
        self._stalled = stalled
        self._times = times
        self.ahead_of_driver_ms = 0
        self.skew_ms = 0
        self.broker_is_off = False
        self.held: list[tuple[int, int]] = []
        self.look_from = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def failure(self) -> ClockStoppedError | None:
        reason = self._stalled()
        return None if reason is None else ClockStoppedError(reason)

    @property
    def now_ms(self) -> int:
        if self.failure is not None:
            raise self.failure
        return next(self._times)

    def hold(self, at_ms: int) -> int:
        self.held.append((at_ms, self.now_ms))
        return self.held[-1][1]

    def resume(self) -> int:
        return self.now_ms

    def stop(self) -> None:
        pass


class FakeProbes:
    """Tells what the test says."""

    def __init__(self) -> None:
        self.stuck_now: set[int] = set()
        self.healed_now: set[int] = set()
        self.ahead_now = {7: 3.5}
        self.measured_at_ms: int | None = None
        """None: now."""
        self.begun: list[set[int]] = []
        self.unsettled = 0
        self.answers_now = True
        self.silent: Iterator[set[int]] = iter(())

    def unwritten_ms(self) -> float:
        return 0

    def stuck(self) -> set[int]:
        return self.stuck_now

    def settle(self, standing: set[int]) -> set[int] | None:
        if self.unsettled:
            self.unsettled -= 1
            return None
        return next(self.silent, set())

    def clock_begins(self) -> None:
        pass

    def tick(self, leeway_ms: int) -> None:
        pass

    def answers(self) -> bool:
        return self.answers_now

    def measured(self, log_time_ms: int) -> dict[int, Measured]:
        at_ms = log_time_ms if self.measured_at_ms is None else self.measured_at_ms
        return {
            partition: Measured(ahead_ms, at_ms, 0, at_ms) for partition, ahead_ms in self.ahead_now.items()
        }

    def healed(self) -> set[int]:
        return self.healed_now

    def restarted(self) -> None:
        self.stuck_now = set()

    def begin(self, standing: set[int]) -> None:
        self.begun.append(standing)
        # Patience begins again with each query.
        self.stuck_now = set()
        self.healed_now = self.healed_now & standing


class FakeCorrections:
    """Notes what it is told."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def during(self, _is_active: Callable[[], bool]) -> AbstractContextManager[None]:
        return nullcontext()

    def begin(self, _now_ms: int, *, runs_again: bool) -> None:
        self._told.append("runs again" if runs_again else "has run")


class Stage:
    """A supervision whose time only goes on when it waits. `script` does something at each look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **given: str) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.queries: list[Query] = []
        self.noting: Iterator[Exception | None] = iter(())
        self.counted_ms: list[int] = []
        self.guards: list[Guard] = []
        self.refused_by: list[Guard] = []
        self.shifts: Iterator[list[Shift]] = iter(())
        self.measured: Iterator[list[Shift]] = iter(())
        self.noted: list[Shift] = []
        self.shifting_s = 0
        self.stopping = StopEvent()
        self.script: Callable[[], None] = lambda: None
        settings = Settings.load(None, {}, {"bootstrap.servers": "k:1", "checkpoint": "c", **given})
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(self.stopping, "wait", self.wait)
        self.batches = BatchWatch("the query")
        self.counts = Counts()
        metrics = JobMetrics(CollectorRegistry())
        watch = Watch(self.batches, Health(self.batches, 9_000), metrics, self.counts)
        leadership: Any = SimpleNamespace(
            coordinator="me", alive_at=None, stopping=self.stopping, await_turn=lambda ticks: None
        )
        nothing: Any = None
        self.probes = FakeProbes()
        self.files: Any = Files()
        monkeypatch.setattr(supervision, "note_standstills", self.note_standstills)
        self.topics: Any = SimpleNamespace(failure=None)
        monkeypatch.setattr(supervision.Clock, "of", self.make_clock)
        self.times = count(2_000, 1_000)
        monkeypatch.setattr(supervision, "TickReader", lambda *_: FakeClock(lambda: None, self.times))
        self.planned_now: Callable[[], Any] = lambda: None
        monkeypatch.setattr(supervision, "newest_planned", lambda _: self.planned_now())
        monkeypatch.setattr(supervision, "note_outage", self.note)
        monkeypatch.setattr(supervision, "reached_ms", lambda _: 0)
        monkeypatch.setattr(supervision, "note_shifts", self.note_shifts)
        monkeypatch.setattr(supervision, "stop_after_batch", lambda *_: True)
        self.pauses: list[Pause] = []
        polling = SimpleNamespace(set=self.pauses.append)
        monkeypatch.setattr(supervision, "Polling", lambda _: polling)
        self.told: list[str] = []
        monkeypatch.setattr(supervision.Corrections, "of", lambda *_: FakeCorrections(self.told))
        self.under_test = Supervision(
            settings,
            self.files,
            nothing,
            self.start,
            leadership,
            watch,
            self.topics,
            self.probes,  # type: ignore[arg-type]
            self.said.append,
        )

    def make_clock(self, *arguments: Any) -> FakeClock:
        self.progress: Progress = arguments[3]
        self.clock = FakeClock(self.progress.stalled, self.times)
        return self.clock

    def wait(self, timeout_s: float) -> bool:
        self.now_s += timeout_s
        self.script()
        assert self.now_s < 10_000, self.said
        return self.stopping.is_set()

    @property
    def standstills(self) -> list[Standstill]:
        """Those that last."""
        return list(Ledger.read(self.files).standing.values())

    def start(self, _notes: Any, guard: Guard, catches_up: bool) -> Any:
        self.guards.append(guard)
        self.queries.append(Query(catches_up))
        return self.queries[-1]

    def note(
        self,
        _ledger: Any,
        _config: Any,
        request_topic: str,
        resumed: Callable[[], int],
        *,
        look_back_ms: int,
        counts_ms: int,
        closed: Any,
    ) -> None:
        if error := next(self.noting, None):
            raise error
        resumed()
        self.counted_ms.append(counts_ms)

    def note_shifts(
        self, *arguments: Any, differ_ms: int, measured: dict[int, Measured], **_: Any
    ) -> tuple[Shifts, list[Shift]]:
        ahead_ms = {partition: it.ahead_ms for partition, it in measured.items()}
        assert (differ_ms, ahead_ms) == (1_500, self.probes.ahead_now)
        noted = next(self.measured, [])
        if (guard := arguments[3]) is not None:
            self.refused_by.append(guard)
            self.now_s += self.shifting_s
            noted = [*next(self.shifts, []), *noted]
        self.noted = [*self.noted, *noted]
        return Shifts(self.noted), noted

    def note_standstills(
        self,
        ledger: Ledger,
        _config: Any,
        request_topic: str,
        partitions: set[int],
        resumed_ms: int,
        *,
        look_back_ms: int,
    ) -> list[int]:
        ledger.begin_standstills(dict.fromkeys(sorted(partitions), resumed_ms))
        return sorted(partitions)

    def end_batch(self, unread: int = 0, groups: int = 0) -> None:
        self.batches.batch_ended(progress(groups, unread=unread))


def planned(batch_id: int = 0, watermark_ms: int = 0, *, is_committed: bool = True) -> Any:
    """A batch, as the checkpoint has it."""
    return SimpleNamespace(
        is_committed=is_committed, batch_id=batch_id, watermark_ms=0, next_watermark_ms=watermark_ms
    )


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_topic_that_is_another_one_ends_it(stage: Stage) -> None:
    def script() -> None:
        if stage.now_s > 60:
            stage.topics.failure = CheckpointError("topic t is not the one")

    stage.script = script
    with pytest.raises(CheckpointError, match="topic t is not the one"):
        stage.under_test.run()
    assert not any(query.isActive for query in stage.queries)


RESTARTED = "restarting the query: no batch has ended in time"
LONGEST_SESSION_S = GroupConfig().group_max_session_timeout_ms // 1000


def test_a_first_batch_that_hangs_is_given_twice_as_long_each_time(stage: Stage) -> None:
    restarts: list[float] = []

    def script() -> None:
        if stage.said.count(RESTARTED) > len(restarts):
            restarts.append(stage.now_s)
        if len(restarts) == 3:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    assert [round(after - before) for before, after in pairwise([0, *restarts])] == [
        120,
        240,
        480,
    ]
    assert {query.catches_up for query in stage.queries} == {True}


def test_while_time_counts_a_batch_has_the_usual_time_again_once_one_has_ended(stage: Stage) -> None:
    began: list[float] = []

    def script() -> None:
        newest = stage.queries[-1]
        if newest.catches_up:
            newest.isActive = False  # it has caught up
        elif len(began) < stage.said.count("the coordinator is running"):
            began.append(stage.now_s)
            # The first and the second of these queries never end a batch, the third ends one and then hangs.
            if len(began) == 3:
                stage.end_batch()
            if len(began) == 5:
                stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    lasted = [round(after - before) for before, after in pairwise(began)]
    assert lasted == [9, 18, 9, 9]


def test_a_backlog_of_several_batches_is_followed_by_another_look(stage: Stage) -> None:
    """Because much has come while it was read; a little of that time counts."""
    newest = iter([2, 5, 7, 8])

    def plan() -> Any:
        return planned(next(newest))

    def script() -> None:
        stage.queries[-1].isActive = False
        if not stage.queries[-1].catches_up:
            stage.stopping.set()

    stage.script = script
    stage.planned_now = plan
    stage.under_test.run()
    assert [query.catches_up for query in stage.queries] == [*[True] * 3, False]
    assert stage.counted_ms == [0, 3_000, 3_000, 0]
    # Deadlines may be due up to where the look before has read.
    (first, first_ms), (second, second_ms), (third, _) = stage.clock.held
    assert (first, second, third) == (0, first_ms, second_ms)


def test_the_batch_that_another_one_may_still_write_is_watched_from_before_it_runs_again(
    stage: Stage,
) -> None:
    seen: list[tuple[bool, list[str]]] = []

    def script() -> None:
        newest = stage.queries[-1]
        seen.append((newest.catches_up, list(stage.told)))
        if not newest.catches_up:
            stage.stopping.set()
        elif stage.batches.groups is None:
            stage.end_batch()
        else:
            newest.isActive = False

    stage.script = script
    stage.planned_now = lambda: planned(7, is_committed=False)
    stage.under_test.run()
    # What comes of the batches after it is not watched.
    assert seen[:2] == [(True, ["runs again"]), (True, ["runs again", "has run"])]


def test_requests_that_come_faster_than_they_are_read_are_an_outage(stage: Stage) -> None:
    running_since: list[float] = []

    def script() -> None:
        newest = stage.queries[-1]
        if newest.catches_up:
            newest.isActive = False
            if running_since:
                stage.stopping.set()
        else:
            running_since.append(stage.now_s)
            stage.end_batch(unread=1)

    stage.script = script
    stage.under_test.run()
    assert "restarting the query: requests come faster than they are read" in stage.said
    assert round(running_since[-1] - running_since[0]) == 9


def test_kafka_that_goes_away_between_two_queries_is_waited_for(stage: Stage) -> None:
    stage.noting = iter([None, KafkaConnectionError("gone"), None, None])

    def script() -> None:
        if stage.queries[-1].catches_up:
            stage.queries[-1].isActive = False
        elif "the coordinator is running" in stage.said:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    assert [line.partition(":")[0] for line in stage.said] == [
        "catching up with the log",
        "waiting for Kafka at k",
        "catching up with the log",
        "the coordinator is running",
        "stopping after the running batch",
    ]


def test_kafka_that_does_not_answer_at_the_start_is_an_error(stage: Stage) -> None:
    stage.noting = iter([KafkaConnectionError("nobody")])
    with pytest.raises(KafkaError, match="nobody"):
        stage.under_test.run()
    assert stage.said == []


def test_a_clock_that_has_jumped_is_noted_before_the_batch_runs_again(stage: Stage) -> None:
    """As long as a batch ends some time: it is no failure of the query."""
    stage.planned_now = planned
    stage.shifts = iter([[Shift(7, 100, -12_000), Shift(8, 0, 0)]])
    # No probe has measured it since.
    stage.probes.measured_at_ms = 0
    # Together with the tries of the task this is longer than a batch may take.
    stage.shifting_s = 5

    def script() -> None:
        newest = stage.queries[-1]
        newest.isActive = False
        if not newest.catches_up:
            stage.now_s += 5
            newest.error = RuntimeError("File x, ClockJumpedError: [CLOCK_JUMPED] partition 7 offset 100")

    stage.script = script
    with pytest.raises(CoordinatorError, match="the query failed"):
        stage.under_test.run()
    whose = "the clock of request partition {}'s leader"
    refused = ["restarting the query: a clock has jumped"]
    running = ["catching up with the log", "the coordinator is running"]
    assert stage.said == [
        *running,
        *refused,
        f"{whose.format(7)} has jumped by +12.0 s: its requests count as of now",
        f"{whose.format(8)} is right again: its requests count as of their append times",
        *running,
        *[*refused, *running] * 2,
    ]
    assert [guard.later_ms for guard in stage.guards] == [2_000] * 8
    # While a backlog is read, clocks may differ besides.
    assert [guard.earlier_ms for guard in stage.guards] == [6_000, 1_500] * 4
    assert {guard.earlier_ms for guard in stage.refused_by} == {1_500}
    # No jump moves time by more than a gap, if the newest tick that was read is no older than a second.
    planned_ms = 1_000_000
    span = stage.guards[-1].span(planned_ms, planned_ms - 1_500, 7)
    assert planned_ms - span.earliest_ms <= 3_000
    assert span.latest_ms - planned_ms <= 3_000


@pytest.mark.parametrize(
    ("ahead_ms", "told"),
    [(-2_500.2, "has jumped by -2.5 s: its requests count as of now"), (-1_500.4, None), (1_500.4, None)],
)
def test_a_clock_that_probes_find_wrong_restarts_the_query(
    stage: Stage, ahead_ms: float, told: str | None
) -> None:
    """Once, and not before a batch has ended: from its end on requests count otherwise."""
    stage.planned_now = planned
    stage.measured = iter([[], [Shift(7, 100, 2_500)]])
    looks = iter(range(9))

    def script() -> None:
        newest = stage.queries[-1]
        if newest.catches_up:
            newest.isActive = False
            return
        stage.probes.ahead_now = {7: ahead_ms}
        if next(looks) > 0:
            stage.batches.groups = 1
        if next(looks, None) is None:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    running = ["catching up with the log", "the coordinator is running"]
    whose = "the clock of request partition 7's leader"
    restarted = ["restarting the query: a clock has jumped", f"{whose} {told}", *running]
    assert stage.said == [*running, *(restarted if told else []), "stopping after the running batch"]


@pytest.mark.parametrize(
    ("noted", "measured_at_ms"), [([Shift(7, 100, 12_000)], None), ([], 2_000)], ids=["noted", "long ago"]
)
def test_a_clock_that_is_noted_to_be_wrong_or_was_before_the_query_began_restarts_none(
    stage: Stage, noted: list[Shift], measured_at_ms: int | None
) -> None:
    """Another process has noted it, or it may have jumped again since it was measured."""
    stage.noted = noted
    stage.probes.ahead_now, stage.probes.measured_at_ms = {7: -12_000}, measured_at_ms

    def script() -> None:
        stage.batches.groups = 1
        stage.queries[-1].isActive = not stage.queries[-1].catches_up
        if stage.queries[-1].isActive:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    assert stage.said == [
        "catching up with the log",
        "the coordinator is running",
        "stopping after the running batch",
    ]


@pytest.mark.parametrize(("measured_at_ms", "is_noted"), [(None, True), (1_000, False)])
def test_a_clock_that_jumps_while_the_log_is_caught_up_with_is_noted_before_the_next_query(
    stage: Stage, measured_at_ms: int | None, is_noted: bool
) -> None:
    """That one has requests that came meanwhile, and it may accept them with the shift of before.

    When the coordinator began it has made use of what was measured before that.
    """
    stage.planned_now = lambda: planned(is_committed=bool(stage.queries))
    stage.measured = iter([[], [Shift(7, 100, -12_000)]])

    def script() -> None:
        newest = stage.queries[-1]
        if not newest.catches_up:
            stage.stopping.set()
        else:
            stage.probes.ahead_now, stage.probes.measured_at_ms = {7: 12_000}, measured_at_ms
            newest.isActive = False

    stage.script = script
    stage.under_test.run()
    jumped = "the clock of request partition 7's leader has jumped by +12.0 s: its requests count as of now"
    assert stage.said == [
        "catching up with the log",
        *([jumped] if is_noted else []),
        "the coordinator is running",
        "stopping after the running batch",
    ]


def test_log_time_is_told_to_the_guard_as_it_goes_on(stage: Stage) -> None:
    def script() -> None:
        stage.queries[-1].isActive = False
        stage.clock.ahead_of_driver_ms = -40
        if len(stage.queries) == 2:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    assert [guard.ahead_ms for guard in stage.guards] == [0, -40]


def test_a_broker_whose_clock_is_off_is_told_of_once(stage: Stage) -> None:
    skews = [40, -3_100, 12_000, 12_000, 0]

    def script() -> None:
        stage.clock.skew_ms = skews.pop()
        stage.clock.broker_is_off = abs(stage.clock.skew_ms) > 3_000
        if not skews:
            stage.script = stage.stopping.set

    stage.script = script
    stage.under_test.run()
    assert [line for line in stage.said if line.startswith("the clock ")] == [
        f"{CLOCK} differs from log time by +12.0 s: log time goes on without it",
        f"{CLOCK} is right again",
    ]


def test_a_partition_that_takes_no_requests_stands_still_until_it_does(stage: Stage) -> None:
    """Whether a probe tells that it does, or the query meets a request of it first."""

    def script() -> None:
        newest = stage.queries[-1]
        if newest.catches_up:
            newest.isActive = False
        elif len(stage.queries) in {2, 6}:
            stage.probes.stuck_now = {7}
            stage.probes.silent = iter([{7}])
        elif len(stage.queries) == 4:
            stage.probes.healed_now = {7}
        elif len(stage.queries) == 8:
            newest.isActive = False
            newest.error = RuntimeError(
                "File x, StoodStillError: [STOOD_STILL] partition 7 takes requests again"
            )
        else:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    running = ["catching up with the log", "the coordinator is running"]
    stands = "request partition 7 takes no requests"
    begins = [f"restarting the query: {stands}", f"{stands}: time stands still for its groups", *running]
    again = "request partition 7 takes requests again"
    ends = [f"restarting the query: {again}", f"{again}, after 5.0 s", *running]
    assert stage.said == [*running, *[*begins, *ends] * 2, "stopping after the running batch"]
    assert stage.probes.begun == [set()] * 2 + ([{7}] * 2 + [set()] * 2) * 2
    # Its requests of that time are no signs of a clock that has jumped.
    stood = [[it.partition for it in guard.standstills if it.end_ms is None] for guard in stage.guards]
    assert stood == [[]] * 2 + ([[7]] * 2 + [[]] * 2) * 2


def test_no_batch_begins_before_it_is_known_which_partitions_take_requests(stage: Stage) -> None:
    """For the one that runs again nothing is noted: it was planned before. No time passes behind it."""
    stage.planned_now = lambda: planned(7, is_committed=False)
    stage.probes.silent, stage.probes.unsettled = iter([{7}, {7}]), 2

    def script() -> None:
        if stage.queries:
            stage.queries[-1].isActive = False
            if not stage.queries[-1].catches_up:
                stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    assert stage.said[:3] == [
        "catching up with the log",
        "request partition 7 takes no requests: time stands still for its groups",
        "the coordinator is running",
    ]
    assert stage.probes.unsettled == 0


def test_a_clock_that_stops_is_noticed_while_partitions_are_asked(stage: Stage) -> None:
    def settle(_standing: set[int]) -> None:
        stage.now_s += 100
        if stage.said:
            stage.stopping.set()

    stage.probes.settle = settle  # type: ignore[assignment]
    stage.under_test.run()
    assert stage.said[0] == RESTARTED
    assert len(stage.queries) == 1


def test_kafka_is_asked_often_while_requests_come(stage: Stage) -> None:
    """Ticks and probes are read besides, and change nothing. Nor do heartbeats in step."""
    heard = iter([(1, 1), (1, 0), (1, 1), (0, 0), (1, 0), (0, 0), (0, 0), (1, 1), (0, 0)])

    def script() -> None:
        if stage.queries[-1].catches_up:
            stage.queries[-1].isActive = False
        elif (requests := next(heard, None)) is None:
            stage.stopping.set()
        else:
            all_of_them, followed = requests
            stage.counts.requests["heartbeat"] += all_of_them
            stage.counts.followed += followed
            # Nothing has come for longer than members leave between two heartbeats, and then for a minute.
            stage.now_s += {6: 5, 7: 55}.get(len(stage.pauses), 0)
            stage.end_batch()
            read = int(stage.now_s)
            stage.batches.read = {"coordinator.requests": {0: read}, "coordinator.clock": {0: read}}

    stage.script = script
    stage.under_test.run()
    assert stage.pauses == [
        Pause.NONE,
        *(Pause.NONE, Pause.SHORT, Pause.NONE, Pause.SHORT, Pause.SHORT),
        *(Pause.LONG, Pause.LONGEST, Pause.NONE, Pause.SHORT),
    ]


@pytest.mark.parametrize("longest_session_s", [LONGEST_SESSION_S, 6])
def test_ticks_are_few_while_no_requests_come_and_deadlines_are_known(
    longest_session_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(monkeypatch, **{"group.max.session.timeout.ms": f"{longest_session_s * 1000}"})
    quiet: list[tuple[float, bool]] = []
    began_s = 0.0

    def script() -> None:
        nonlocal began_s
        if stage.queries[-1].catches_up:
            stage.queries[-1].isActive = False
            assert not stage.progress.is_quiet()
            return
        began_s = began_s or stage.now_s
        stage.end_batch(groups=1)
        later_s = stage.now_s - began_s - longest_session_s
        if later_s > 90:
            stage.stopping.set()
        elif later_s > 80:
            stage.probes.answers_now = False
        elif 70 < later_s < 71:
            stage.counts.rejected += 1
        if not quiet or quiet[-1][1] is not stage.progress.is_quiet():
            quiet.append((later_s, stage.progress.is_quiet()))

    stage.script = script
    stage.under_test.run()
    assert [is_quiet for _, is_quiet in quiet] == [False, True, False, True, False]
    assert [at_s for at_s, _ in quiet] == pytest.approx([-longest_session_s, 60, 70, 76, 80], abs=0.5)


def test_ticks_are_few_soon_if_the_query_has_begun_without_groups(stage: Stage) -> None:
    """But not in the next one: another coordinator may have been there between."""
    quiet: list[tuple[float, bool]] = []
    began_s = 0.0

    def script() -> None:
        nonlocal began_s
        newest = stage.queries[-1]
        if newest.catches_up:
            newest.isActive = False
            began_s = 0.0
            return
        began_s = began_s or stage.now_s
        stage.end_batch(groups=0 if len(stage.queries) == 2 and stage.now_s < began_s + 1 else 1)
        if not quiet or quiet[-1][1] is not stage.progress.is_quiet():
            quiet.append((stage.now_s - began_s, stage.progress.is_quiet()))
        if stage.now_s > began_s + 60:
            if len(stage.queries) > 2:
                stage.stopping.set()
            newest.isActive = False
            newest.error = RuntimeError("[CONCURRENT_STREAM_LOG_UPDATE] somebody else")

    stage.script = script
    stage.under_test.run()
    assert [is_quiet for _, is_quiet in quiet] == [False, True, False]
    assert [at_s for at_s, _ in quiet] == pytest.approx([0, 5, 0], abs=0.5)
