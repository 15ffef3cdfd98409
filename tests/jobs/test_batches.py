from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from group_coordinator.jobs.batches import BatchWatch
from tests.jobs.progress import progress

NAME = "group-coordinator"


def started(run_id: UUID, name: str = NAME) -> Any:
    return SimpleNamespace(name=name, runId=run_id)


def ended(run_id: UUID, *groups: int, unread: int = 0) -> Any:
    return SimpleNamespace(progress=progress(*groups, unread=unread, run_id=run_id))


def test_before_the_first_batch() -> None:
    watch = BatchWatch(NAME)
    watch.onQueryStarted(started(uuid4()))

    assert watch.groups is None


def test_a_batch_that_has_ended() -> None:
    watch, run = BatchWatch(NAME), uuid4()
    watch.restart()
    watch.onQueryStarted(started(run))
    begun_ms = watch.silent_ms
    watch.onQueryProgress(ended(run, 7))

    assert watch.groups == 7
    assert watch.silent_ms < begun_ms + 1_000


def idle(run_id: UUID) -> Any:
    return SimpleNamespace(runId=run_id, timestamp="2026-11-22T04:00:00.000Z")


def test_to_have_found_nothing_to_do_counts_only_where_that_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    ticking, idling, run = BatchWatch(NAME), BatchWatch(NAME, may_idle=True), uuid4()
    for watch in (ticking, idling):
        watch.onQueryStarted(started(run))
    now += 5
    for watch in (ticking, idling):
        watch.onQueryIdle(idle(run))
        watch.onQueryIdle(idle(uuid4()))

    assert (ticking.groups, ticking.silent_ms) == (None, 5_000)
    assert (idling.groups, idling.silent_ms) == (0, 0)
    now += 5
    idling.onQueryProgress(ended(run, 7))
    now += 5
    idling.onQueryIdle(idle(uuid4()))
    assert (idling.groups, idling.silent_ms) == (7, 5_000)


def test_a_batch_that_leaves_something_unread_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    watch, run = BatchWatch(NAME), uuid4()
    watch.onQueryStarted(started(run))
    now += 5
    watch.onQueryProgress(ended(run, 7, unread=1))
    assert (watch.silent_ms, watch.behind_ms) == (0, 5_000)
    assert (watch.read, watch.caught_up) == ({"requests": {0: 7}}, {})

    watch.onQueryProgress(ended(run, 7))
    assert watch.behind_ms == 0
    assert watch.caught_up == {"requests": {0: 7}}

    watch.restart()
    assert (watch.read, watch.caught_up) == ({"requests": {0: 7}}, {})


def test_other_queries_do_not_count() -> None:
    watch, run, other = BatchWatch(NAME), uuid4(), uuid4()
    watch.onQueryStarted(started(run))
    watch.onQueryStarted(started(other, "another"))
    watch.onQueryProgress(ended(other, 7))

    assert watch.groups is None


def test_what_is_told_late_of_the_query_before_does_not_count() -> None:
    watch, before, after = BatchWatch(NAME), uuid4(), uuid4()
    watch.onQueryStarted(started(before))
    watch.onQueryProgress(ended(before, 7))
    watch.restart()
    watch.onQueryProgress(ended(before, 8))
    assert watch.groups is None

    watch.onQueryStarted(started(after))
    watch.onQueryProgress(ended(before, 9))
    watch.onQueryProgress(ended(after, 3))
    assert watch.groups == 3
