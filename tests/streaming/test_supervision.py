"""When a query restarts, and how long it is given: with queries and a clock that do as the test says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any, Self

import pytest
from kafka.errors import KafkaConnectionError, KafkaError
from prometheus_client import CollectorRegistry

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.ledger import Begun, Ledger, Notes
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.standstills import Standstill
from group_coordinator.jobs.batches import BatchWatch
from group_coordinator.jobs.health import Health
from group_coordinator.jobs.signals import StopEvent
from group_coordinator.streaming import noting, queries, supervision
from group_coordinator.streaming.clock import ClockStoppedError, Progress
from group_coordinator.streaming.counts import Counts
from group_coordinator.streaming.errors import CoordinatorError
from group_coordinator.streaming.leadership import Leadership
from group_coordinator.streaming.metrics import JobMetrics, Vitals
from group_coordinator.streaming.polling import Pause
from group_coordinator.streaming.queries import Queries
from group_coordinator.streaming.settings import CoordinatorSettings
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
        self.driver_ms = 0.0
        """By how much this machine's clock was set ahead."""
        self.steered_ms = 0
        """By how much log time is ahead of where it would be if nobody steered it."""
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
    def ahead_of_driver_ms(self) -> int:
        return round(self.steered_ms - self.driver_ms)

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
        self.silent_now: dict[int, float] = {}
        self.unknown_now: list[set[int]] = []
        """What it says first."""
        self.healed_now: set[int] = set()
        self.begun: list[set[int]] = []

    def silent(self) -> dict[int, float]:
        assert not self.unknown_now
        return self.silent_now

    def unknown(self) -> set[int]:
        return self.unknown_now.pop() if self.unknown_now else set()

    def healed(self) -> set[int]:
        return self.healed_now

    def begin(self, standing: set[int]) -> None:
        self.begun.append(standing)
        self.silent_now = {}
        self.healed_now = self.healed_now & standing


class FakeCorrections:
    """Notes what it is told."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

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
        self.notes: list[Notes] = []
        """As each query is told them."""
        self.asked_ms: list[dict[int, int]] = []
        """The partitions of which it was noted that they stand still, and since when each was asked."""
        self.driver_ms = 0
        """By how much this machine's clock was set ahead, when a clock begins."""
        self.stopping = StopEvent()
        self.script: Callable[[], None] = lambda: None
        settings = CoordinatorSettings.load(
            None, {}, {"bootstrap.servers": "k:1", "checkpoint": "c", **given}
        )
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(self.stopping, "wait", self.wait)
        self.batches = BatchWatch("the query")
        self.counts = Counts()
        metrics = JobMetrics(CollectorRegistry())
        vitals = Vitals(self.batches, Health(self.batches, 9_000), metrics, self.counts)
        nothing: Any = None
        leadership = Leadership(
            settings, "me", vitals, nothing, nothing, None, self.said.append, self.stopping
        )
        monkeypatch.setattr(leadership, "await_turn", lambda _: None)
        self.probes = FakeProbes()
        self.files: Any = Files()
        monkeypatch.setattr(noting, "note_standstills", self.note_standstills)
        self.topics: Any = SimpleNamespace(failure=None)
        monkeypatch.setattr(supervision, "Clock", self.make_clock)
        self.times = count(2_000, 1_000)
        monkeypatch.setattr(supervision, "TickReader", lambda *_: FakeClock(lambda: None, self.times))
        self.planned_now: Callable[[], Any] = lambda: None
        for module in noting, queries:
            monkeypatch.setattr(module, "newest_planned", lambda _: self.planned_now())
        monkeypatch.setattr(noting, "note_begin", self.note)
        monkeypatch.setattr(supervision, "reached_ms", lambda _: 0)
        monkeypatch.setattr(supervision, "stop_after_batch", lambda *_: True)
        self.pauses: list[Pause] = []
        polling = SimpleNamespace(set=self.pauses.append)
        monkeypatch.setattr(queries, "Polling", lambda _: polling)
        self.told: list[str] = []
        corrections: Any = FakeCorrections(self.told)
        under_test = Queries(
            settings,
            self.files,
            self.start,
            vitals,
            self.topics,
            self.probes,  # type: ignore[arg-type]
            corrections,
            leadership.stopping,
            self.said.append,
        )
        self.under_test = Supervision(
            settings, nothing, leadership, vitals.health, under_test, self.said.append
        )

    def make_clock(self, *arguments: Any) -> FakeClock:
        self.progress: Progress = arguments[4]
        self.clock = FakeClock(self.progress.stalled, self.times)
        self.clock.driver_ms = self.driver_ms
        return self.clock

    def wait(self, timeout_s: float) -> bool:
        self.now_s += timeout_s
        self.script()
        assert self.now_s < 10_000, self.said
        return self.stopping.is_set()

    @property
    def standstills(self) -> list[Standstill]:
        """All that are noted."""
        return list(Ledger.read(self.files).notes.standstills)

    def start(self, notes: Notes, catches_up: bool) -> Any:
        self.notes.append(notes)
        self.queries.append(Query(catches_up))
        return self.queries[-1]

    def note(
        self,
        ledger: Ledger,
        _planned: Any,
        resumed_ms: int,
        ahead_ms: int,
        *,
        later_ms: int,
        catches_up: bool,
        counts_ms: int,
        closed: Any,
    ) -> None:
        if error := next(self.noting, None):
            raise error
        assert later_ms == 2_000
        self.resumed_ms = resumed_ms
        self.counted_ms.append(counts_ms)
        ledger.begin(Begun(len(self.queries), ahead_ms, resumed_ms if catches_up else LATEST_MS))

    def note_standstills(
        self,
        ledger: Ledger,
        _planned: Any,
        _topic: str,
        asked_ms: Mapping[int, int],
        _times_of: Any,
        *,
        later_ms: int,
        look_back_ms: int,
    ) -> list[int]:
        assert (later_ms, look_back_ms) == (2_000, 12_500)
        new = sorted(asked_ms.keys() - ledger.standing.keys())
        if new:
            self.asked_ms.append(dict(asked_ms))
            ledger.begin_standstills(dict.fromkeys(new, self.resumed_ms), batch=0)
        return new

    def set_driver(self, by_ms: int) -> None:
        """Set this machine's clock."""
        self.driver_ms += by_ms
        self.clock.driver_ms = self.driver_ms

    def correct(self, partition: int, ahead: int) -> None:
        """A request of that partition shows that its clock is so many tenths of a second ahead."""
        # New ones, as the driver makes them.
        self.counts.clocks = self.counts.clocks + Counter([(partition, ahead)])

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

    def plan() -> Any:
        return planned([2, 5, 7, 8][len(stage.queries)])

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


def test_what_takes_its_time_before_a_query_begins_belongs_to_the_outage(stage: Stage) -> None:
    """The plan is read before log time is asked for."""
    read_ms: list[int] = []

    def plan() -> Any:
        read_ms.append(next(stage.times))
        return planned(7)

    def script() -> None:
        stage.queries[-1].isActive = False
        stage.stopping.set()

    stage.script = script
    stage.planned_now = plan
    stage.under_test.run()
    assert read_ms[-1] < stage.resumed_ms


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


RUNNING = ["catching up with the log", "the coordinator is running"]
STOPPING = "stopping after the running batch"
HAS_JUMPED = "restarting the query: this machine's clock and log time have come apart"


def test_another_writer_that_goes_on_is_a_failure_of_the_query(stage: Stage) -> None:
    """As long as a batch ends some time it is none."""

    def script() -> None:
        newest = stage.queries[-1]
        newest.isActive = False
        if not newest.catches_up:
            newest.error = RuntimeError("[CONCURRENT_STREAM_LOG_UPDATE] somebody else")
            if len(stage.queries) == 4:
                stage.end_batch()

    stage.script = script
    with pytest.raises(CoordinatorError, match="the query failed"):
        stage.under_test.run()
    restarted = "restarting the query: another coordinator has written to the checkpoint"
    assert stage.said == [*RUNNING, *[restarted, *RUNNING] * 4]


def test_a_query_that_fails_otherwise_is_not_tried_again(stage: Stage) -> None:
    def script() -> None:
        stage.queries[-1].isActive = False
        stage.queries[-1].error = RuntimeError("no task has ended well")

    stage.script = script
    with pytest.raises(CoordinatorError, match="the query failed: no task has ended well"):
        stage.under_test.run()
    assert len(stage.queries) == 1


@pytest.mark.parametrize("catches_up", [True, False])
@pytest.mark.parametrize(
    ("set_ms", "has_jumped"),
    [(3_000, False), (-3_000, False), (3_001, True), (-3_001, True), (3_600_000, True)],
)
def test_this_machines_clock_that_jumps_restarts_the_query(
    stage: Stage, catches_up: bool, set_ms: int, has_jumped: bool
) -> None:
    """Once: the next one is told how its plans tell log time now. Each began when all was well."""
    looks = iter(range(9))

    def script() -> None:
        newest = stage.queries[-1]
        if newest.catches_up is catches_up and (look := next(looks, None)) is not None:
            stage.set_driver(0 if look else set_ms)
        elif newest.catches_up:
            newest.isActive = False
        else:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    before = RUNNING[:1] if catches_up else RUNNING
    restarted = [*before, HAS_JUMPED]
    assert stage.said == [*(restarted if has_jumped else []), *RUNNING, STOPPING]
    known = {it.begun[-1].ahead_ms for it in stage.notes}
    assert known == ({0, -set_ms} if has_jumped or catches_up else {0})


@pytest.mark.parametrize("with_log_time", [False, True])
def test_this_machines_clock_that_is_set_several_times_restarts_the_query(
    stage: Stage, with_log_time: bool
) -> None:
    """It is compared with what it was when the query began. Log time may be steered meanwhile."""

    def script() -> None:
        newest = stage.queries[-1]
        if newest.catches_up:
            newest.isActive = False
        elif len(stage.queries) > 2:
            stage.stopping.set()
        else:
            stage.set_driver(800)
            stage.clock.steered_ms -= 800 if with_log_time else 0

    stage.script = script
    stage.under_test.run()
    assert stage.said == [*RUNNING, HAS_JUMPED, *RUNNING, STOPPING]
    assert stage.driver_ms == (1_600 if with_log_time else 3_200)


@pytest.mark.parametrize("catches_up", [True, False])
@pytest.mark.parametrize("by_ms", [150, -150])
def test_log_time_that_is_steered_by_less_than_a_gap_restarts_nothing(
    stage: Stage, catches_up: bool, by_ms: int
) -> None:
    looks = iter(range(20))

    def script() -> None:
        newest = stage.queries[-1]
        if newest.catches_up is catches_up and next(looks, None) is not None:
            stage.clock.steered_ms += by_ms
        elif newest.catches_up:
            newest.isActive = False
        else:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    assert stage.said == [*RUNNING, STOPPING]
    # The next query is told.
    assert [it.begun[-1].ahead_ms for it in stage.notes] == [0, 20 * by_ms if catches_up else 0]


def test_each_query_is_told_how_its_plans_tell_log_time(stage: Stage) -> None:
    """So a clock may be set by a little during each of them."""

    def script() -> None:
        if stage.queries[-1].catches_up:
            stage.queries[-1].isActive = False
            stage.set_driver(1_400)
        elif stage.driver_ms == 1_400:
            stage.set_driver(1_400)
        else:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    assert stage.said == [*RUNNING, STOPPING]
    first, second = (it.begun[-1] for it in stage.notes)
    assert (first.ahead_ms, second.ahead_ms) == (0, -1_400)
    # One that catches up reads no further than what was there when it began.
    ((_, held_ms),) = stage.clock.held
    assert (first.until_ms, second.until_ms) == (held_ms, LATEST_MS)


def test_a_request_partitions_clock_that_is_wrong_is_told_and_restarts_nothing(stage: Stage) -> None:
    corrections = iter([(7, 120), (7, 121), None, (8, -25), (7, 0), (8, 0), (7, 36)])

    def script() -> None:
        if stage.queries[-1].catches_up:
            stage.queries[-1].isActive = False
            return
        stage.end_batch()
        try:
            correction = next(corrections)
        except StopIteration:
            stage.stopping.set()
        else:
            if correction is not None:
                stage.correct(*correction)

    stage.script = script
    stage.under_test.run()
    seven, eight = (f"the clock of request partition {it}'s leader is" for it in (7, 8))
    assert stage.said == [
        *RUNNING,
        f"{seven} wrong by +12.0 s: its requests count as of now",
        f"{eight} wrong by -2.5 s: its requests count as of now",
        f"{seven} right again",
        f"{eight} right again",
        f"{seven} wrong by +3.6 s: its requests count as of now",
        STOPPING,
    ]


def test_a_clock_that_was_wrong_before_the_log_was_caught_up_with_is_told_of(stage: Stage) -> None:
    """What is the news of one query is none of the next."""

    def script() -> None:
        if stage.queries[-1].catches_up:
            stage.correct(7, 120)
            stage.script = end

    def end() -> None:
        stage.queries[-1].isActive = False
        if not stage.queries[-1].catches_up:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    told = "the clock of request partition 7's leader is wrong by +12.0 s: its requests count as of now"
    assert stage.said == [RUNNING[0], told, RUNNING[1], STOPPING]


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
    stage.planned_now = lambda: planned(7)

    def script() -> None:
        newest = stage.queries[-1]
        if newest.catches_up:
            newest.isActive = False
        elif len(stage.queries) in {2, 6}:
            stage.probes.silent_now = {7: 250.4}
        elif len(stage.queries) in {4, 8}:
            stage.probes.healed_now = {7}
        else:
            stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    stands = "request partition 7 takes no requests"
    begins = [f"restarting the query: {stands}", f"{stands}: time stands still for its groups", *RUNNING]
    again = "request partition 7 takes requests again"
    ends = [f"restarting the query: {again}", f"{again}, after 3.0 s", *RUNNING]
    assert stage.said == [*RUNNING, *[*begins, *ends] * 2, STOPPING]
    assert stage.probes.begun == [set()] * 2 + ([{7}] * 2 + [set()] * 2) * 2
    stood = [[it.partition for it in notes.standstills if it.end_ms is None] for notes in stage.notes]
    assert stood == [[]] * 2 + ([[7]] * 2 + [[]] * 2) * 2
    # A batch that was planned before, and runs again, does not know that it is over.
    assert [it.end_batch for it in stage.standstills] == [8, 8]
    # Since when each was asked is told in log time, of which a second has passed until the query began.
    since_ms = [it.start_ms - asked[7] for it, asked in zip(stage.standstills, stage.asked_ms, strict=True)]
    assert since_ms == [1_250] * 2


def test_no_batch_begins_before_it_is_known_which_partitions_take_requests(stage: Stage) -> None:
    """For the one that runs again it is noted as well: that does not know it, and what comes next does."""
    stage.planned_now = lambda: planned(7, is_committed=False)
    stage.probes.unknown_now, stage.probes.silent_now = [{7}, {7}], {7: 0}

    def script() -> None:
        if stage.queries:
            stage.queries[-1].isActive = False
            if not stage.queries[-1].catches_up:
                stage.stopping.set()

    stage.script = script
    stage.under_test.run()
    assert stage.said == [
        "request partition 7 takes no requests: time stands still for its groups",
        *RUNNING,
        STOPPING,
    ]
    assert [it.partition for it in stage.notes[0].standstills] == [7]


def test_a_clock_that_stops_is_noticed_while_partitions_are_asked(stage: Stage) -> None:
    stage.probes.unknown_now = [{7}] * 3

    def script() -> None:
        stage.now_s += 100
        if stage.said:
            stage.stopping.set()

    stage.script = script
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
        elif 70 < later_s < 71:
            stage.counts.rejected += 1
        if not quiet or quiet[-1][1] is not stage.progress.is_quiet():
            quiet.append((later_s, stage.progress.is_quiet()))

    stage.script = script
    stage.under_test.run()
    assert [is_quiet for _, is_quiet in quiet] == [False, True, False, True]
    assert [at_s for at_s, _ in quiet] == pytest.approx([-longest_session_s, 60, 70, 76], abs=0.5)


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
