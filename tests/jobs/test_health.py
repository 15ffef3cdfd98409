"""What the probes see in each situation: who is restarted, and who is waited for."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from group_coordinator.jobs.batches import BatchWatch
from group_coordinator.jobs.health import Activity, Health
from tests.jobs.progress import progress

STALL_MS = 9_000


class Clock:
    """Time that is set by hand, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def batches(clock: Clock) -> BatchWatch:
    return BatchWatch("the-query-under-test")


@pytest.fixture
def health(batches: BatchWatch) -> Health:
    return Health(batches, STALL_MS)


def begin(batches: BatchWatch) -> Any:
    """Start a query; return what ends a batch of it."""
    run_id = uuid4()
    batches.restart()
    query: Any = SimpleNamespace(name="the-query-under-test", runId=run_id)
    batches.onQueryStarted(query)
    ended: Any = SimpleNamespace(progress=progress(run_id=run_id))
    return lambda: batches.onQueryProgress(ended)


def probes(health: Health) -> tuple[bool, bool, str]:
    """Live, ready, and why."""
    live, ready = health.is_live(), health.is_ready()
    assert live.why == ready.why
    return live.good, ready.good, live.why


def test_while_it_starts_it_is_waited_for(health: Health) -> None:
    assert probes(health) == (True, False, "starting")


def test_one_that_stands_by_does_what_it_is_there_for(health: Health, clock: Clock) -> None:
    for _ in range(1_000):
        health.does(Activity.STANDING_BY)
        assert probes(health) == (True, True, "standing by: another coordinator runs")
        health.does(Activity.WARM)
        assert probes(health) == (True, True, "standing by, and warm: another coordinator runs")
        clock.wait(1)


def test_it_may_take_long_until_spark_is_up(health: Health, clock: Clock) -> None:
    """The jars are fetched first, by whatever line there is."""
    clock.wait(1_800)
    assert probes(health) == (True, False, "starting")
    clock.wait(1)
    assert probes(health) == (False, False, "has stood still for 1801 s: starting")


def test_one_that_catches_up_is_not_ready_however_many_batches_that_takes(
    health: Health, batches: BatchWatch, clock: Clock
) -> None:
    end_of_batch = begin(batches)
    health.does(Activity.CATCHING_UP, 120_000)
    clock.wait(100)
    expected = "catching up with the log: the first batch has been running for 100.0 s"
    assert probes(health) == (True, False, expected)
    end_of_batch()
    assert probes(health) == (True, False, "catching up with the log: a batch has ended 0.0 s ago")


def test_it_is_ready_when_batches_end(health: Health, batches: BatchWatch, clock: Clock) -> None:
    end_of_batch = begin(batches)
    health.does(Activity.COORDINATING, STALL_MS)
    clock.wait(5)
    assert probes(health) == (True, False, "coordinating: the first batch has been running for 5.0 s")
    end_of_batch()
    clock.wait(0.25)
    assert probes(health) == (True, True, "coordinating: a batch has ended 0.2 s ago")
    clock.wait(8)
    assert probes(health)[:2] == (True, True)
    clock.wait(1)
    assert probes(health) == (True, False, "coordinating: a batch has ended 9.2 s ago")


def test_a_first_batch_may_take_as_long_as_the_job_itself_gives_it(
    health: Health, batches: BatchWatch, clock: Clock
) -> None:
    begin(batches)
    for _ in range(700):
        health.does(Activity.COORDINATING, patience_ms=600_000)
        assert probes(health)[:2] == (True, False)
        clock.wait(1)


def test_a_history_is_asked_the_same(health: Health, batches: BatchWatch, clock: Clock) -> None:
    end_of_batch = begin(batches)
    health.does(Activity.WRITING_HISTORY, math.inf)
    clock.wait(60)
    assert probes(health) == (True, False, "writing the history: the first batch has been running for 60.0 s")
    end_of_batch()
    health.does(Activity.WRITING_HISTORY, patience_ms=600_000)
    assert probes(health) == (True, True, "writing the history: a batch has ended 0.0 s ago")
    for _ in range(720):
        assert health.is_live().good
        clock.wait(1)
        health.does(Activity.WRITING_HISTORY, patience_ms=600_000)
    assert probes(health)[:2] == (True, False)
    clock.wait(1)
    assert probes(health) == (False, False, "writing the history: a batch has ended 721.0 s ago")


def test_batches_that_do_not_end_and_nobody_notices(
    health: Health, batches: BatchWatch, clock: Clock
) -> None:
    begin(batches)()
    for _ in range(129):
        clock.wait(1)
        health.does(Activity.COORDINATING, STALL_MS)
    assert probes(health)[:2] == (True, False)
    clock.wait(1)
    assert probes(health) == (False, False, "coordinating: a batch has ended 130.0 s ago")


def test_nobody_is_restarted_for_kafkas_being_away(health: Health, batches: BatchWatch, clock: Clock) -> None:
    begin(batches)()
    health.does(Activity.RESTARTING)
    # Spark takes as long to stop the query.
    clock.wait(60)
    assert probes(health) == (True, False, "restarting the query")
    for _ in range(1_000):
        health.does(Activity.WAITING_FOR_KAFKA)
        assert probes(health) == (True, False, "waiting for Kafka")
        clock.wait(1)


def test_a_job_that_stands_still_is_restarted_whatever_it_did(
    health: Health, batches: BatchWatch, clock: Clock
) -> None:
    end_of_batch = begin(batches)
    for activity in Activity:
        end_of_batch()
        health.does(activity)
        clock.wait(120)
        assert health.is_live().good
        clock.wait(1)
        assert probes(health) == (False, False, f"has stood still for 121 s: {activity.value}")


def test_while_it_stops_it_is_not_ready(health: Health) -> None:
    health.does(Activity.STOPPING)
    assert probes(health) == (True, False, "stopping")
