"""The history of a group of the consumer protocol at the brokers has causes, lengths, and who waited."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.history.questions import About, Period, fleet, question_called
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import time_of
from group_coordinator.history.story import Story
from group_coordinator.history.timeline import timeline_svg
from tests.brokers_log.consumers import UNRELEASED, UNREVOKED, ConsumerLog
from tests.brokers_log.test_history import ask
from tests.brokers_log.watching import Watching
from tests.history.plain import write_plain_tables

WHOLE = Period(time_of(0), time_of(100_000))
WATCHED = About("g", WHOLE)


@pytest.fixture(scope="module")
def told() -> list[AnyEvent]:
    log, watching = ConsumerLog(now_ms=0), Watching()
    log.joins("a-1", 2, {"a-1": [0, 1]})
    log.share("a-1", 2, t=[0, 1])
    log.now_ms = 9_000
    log.joins("b-1", 3, {"a-1": [0], "b-1": [1]})
    log.share("b-1", 3, state=UNRELEASED)
    log.share("a-1", 2, state=UNREVOKED, t=[0], pending={"t": [1]}, ms=1_000)
    log.share("a-1", 3, t=[0], ms=2_000)
    log.share("b-1", 3, t=[1], ms=500)
    log.commit(1, 9, ms=500)
    log.leaves("b-1", 4, ms=6_000)
    log.divided(4, {"a-1": [0, 1]})
    log.share("a-1", 4, t=[0, 1])
    watching.read(log.records)
    return [msgspec.convert(each, AnyEvent) for each in watching.events]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, told: list[AnyEvent]) -> HistoryReader:
    path: Path = tmp_path_factory.mktemp("watched")
    write_plain_tables(path, told)
    return HistoryReader(str(path))


def test_rebalances_with_their_causes_and_lengths(reader: HistoryReader) -> None:
    columns = ("began", "took_ms", "ended_in", "cause", "reason")
    assert ask(reader, question_called("rebalances").sql(WATCHED), *columns) == [
        (1.0, 0, "Stable", "member_joined", "a-1 joined"),
        (10.0, 3_500, "Stable", "member_joined", "b-1 joined"),
        (20.0, 0, "Stable", "unknown", "b-1 went"),
    ]
    columns = ("group_id", "rebalances", "last_cause", "not_stable_ms")
    assert ask(reader, fleet(WHOLE), *columns) == [("g", 3, "unknown", 3_500)]


def test_who_still_held_what_another_one_waited_for(reader: HistoryReader) -> None:
    columns = ("topic", "partition", "held_by", "waited_for_by", "since", "until")
    assert ask(reader, question_called("waits").sql(WATCHED), *columns) == [("t", 1, "a", "b", 10.0, 13.0)]


def test_members_and_owners(reader: HistoryReader) -> None:
    columns = ("client_id", "since", "until", "reason", "last_commit_ms", "session_timeout_ms")
    assert ask(reader, question_called("members").sql(WATCHED), *columns) == [
        ("a", 1.0, None, None, None, None),
        ("b", 10.0, 20.0, "unknown", 6_000, None),
    ]
    columns = ("topic", "partition", "client_id", "since", "until")
    assert ask(reader, question_called("assignments").sql(WATCHED), *columns) == [
        ("t", 0, "a", 1.0, None),
        ("t", 1, "a", 1.0, 13.0),
        ("t", 1, "b", 13.5, 20.0),
        ("t", 1, "a", 20.0, None),
    ]


def test_a_timeline(told: list[AnyEvent]) -> None:
    drawn = timeline_svg(Story.of_events("g", enumerate(told)), WHOLE.since, WHOLE.until)
    assert "3 rebalances (2 joined, 1 for an unknown cause) · the longest took 3,500 ms" in drawn
    assert 'class="wait"' in drawn
