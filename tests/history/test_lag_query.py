"""When the query of lag is started, and what becomes of it if it fails. Spark and Kafka are stand-ins."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

from group_coordinator.history import lag_query
from group_coordinator.history.lag_query import LagQuery
from group_coordinator.history.settings import HistorySettings


class Query:
    def __init__(self) -> None:
        self.isActive = True
        self.error: PySparkException | None = None

    def exception(self) -> PySparkException | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


class World:
    """A topic that may be there, and the queries that were started on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, once: bool) -> None:
        self.now_s, self.is_there, self.queries = 1_000.0, False, list[Query]()
        monkeypatch.setattr(lag_query, "start_query", self._start)
        monkeypatch.setattr(lag_query.time, "monotonic", lambda: self.now_s)
        settings = HistorySettings(history_path="/nowhere")
        self.it = LagQuery(cast("Any", None), settings, {}, lambda _: None, once=once)
        monkeypatch.setattr(self.it, "_is_there", lambda: self.is_there)

    def _start(self, *_: object, **__: object) -> Query:
        self.queries.append(Query())
        return self.queries[-1]


def test_it_begins_when_there_is_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, once=False)
    assert not world.it.look()
    world.is_there = True
    # It is not looked for all the time.
    assert not world.it.look()
    world.now_s += 60
    assert [world.it.look() for _ in range(3)] == [True] * 3
    (query,) = world.queries
    world.it.stop()
    assert not query.isActive


def test_a_failure_is_told_once_and_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    world = World(monkeypatch, once=False)
    world.is_there = True
    assert world.it.look()
    for number in (1, 2):
        query = world.queries[-1]
        query.isActive, query.error = False, PySparkException("the disk is full\nand more")
        assert not world.it.look()
        assert len(world.queries) == number
        world.now_s += 60
        assert world.it.look()
    assert caplog.messages == ["lag is not written to the history, trying again: the disk is full"]


@pytest.mark.parametrize("is_there", [False, True])
def test_once_is_once(monkeypatch: pytest.MonkeyPatch, *, is_there: bool) -> None:
    world = World(monkeypatch, once=True)
    world.is_there = is_there
    assert world.it.look() is is_there
    for query in world.queries:
        query.isActive = False
    world.now_s += 3_600
    assert not world.it.look()
    assert len(world.queries) == is_there
