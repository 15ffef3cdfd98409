"""The history of a group at the brokers answers the questions that it can, and claims nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.history.questions import About, Period, fleet, question_called
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import time_of
from group_coordinator.history.story import Story
from group_coordinator.history.timeline import timeline_svg
from tests.brokers_log.kafka import Log, M
from tests.brokers_log.watching import Watching
from tests.history.plain import write_plain_tables

WHOLE = Period(time_of(0), time_of(100_000))
WATCHED = About("g", WHOLE)


@pytest.fixture(scope="module")
def told() -> list[AnyEvent]:
    log, watching = Log(now_ms=0), Watching()
    log.new(ms=1_000)
    log.stable(1, M("a-1", [0, 1]), ms=3_000)
    log.commit(0, 5, ms=500)
    log.stable(2, M("a-1", [0]), M("b-1", [1]), ms=5_500)
    log.stable(3, M("b-1", [0, 1]), ms=10_000)
    log.empty(4, ms=10_000)
    log.commit(0, 0, ms=5_000)
    watching.read(log.records)
    return [msgspec.convert(each, AnyEvent) for each in watching.events]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, told: list[AnyEvent]) -> HistoryReader:
    path: Path = tmp_path_factory.mktemp("watched")
    write_plain_tables(path, told)
    return HistoryReader(str(path))


def ask(reader: HistoryReader, sql: str, *columns: str) -> list[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        return value.timestamp() if hasattr(value, "timestamp") else value

    return [tuple(plain(row[name]) for name in columns) for row in reader.query(sql).to_pylist()]


def test_rebalances(reader: HistoryReader) -> None:
    columns = ("began", "took_ms", "ended_in", "cause", "generation_id", "members", "last_to_join")
    assert ask(reader, question_called("rebalances").sql(WATCHED), *columns) == [
        (3.999, None, "Stable", "member_joined", 1, 1, None),
        (9.999, None, "Stable", "unknown", 2, 2, None),
        (19.999, None, "Stable", "unknown", 3, 1, None),
        (30.0, None, "Empty", "unknown", 4, 0, None),
    ]


def test_causes_and_the_fleet(reader: HistoryReader) -> None:
    causes = ask(reader, question_called("causes").sql(WATCHED), "cause", "rebalances", "total_ms")
    assert causes == [("member_joined", 1, None), ("unknown", 3, None)]
    # How long a rebalance took is not known, so the time that the group was not Stable is not 0.
    columns = ("group_id", "rebalances", "last_cause", "not_stable_ms", "not_stable_percent")
    assert ask(reader, fleet(WHOLE), *columns) == [("g", 4, "unknown", None, None)]


def test_nobody_is_said_to_have_kept_others_waiting(reader: HistoryReader) -> None:
    assert ask(reader, question_called("joins").sql(WATCHED), "client_id") == []


def test_members_and_owners(reader: HistoryReader) -> None:
    members = ask(reader, question_called("members").sql(WATCHED), "client_id", "since", "until", "reason")
    assert members == [("a", 3.999, 19.999, "unknown"), ("b", 9.999, 30.0, "unknown")]
    owners = ask(
        reader, question_called("assignments").sql(WATCHED), "partition", "client_id", "since", "until"
    )
    assert owners == [
        (0, "a", 4.0, 10.0),
        (0, "a", 10.0, 19.999),
        (0, "b", 20.0, 30.0),
        (1, "a", 4.0, 10.0),
        (1, "b", 10.0, 20.0),
        (1, "b", 20.0, 30.0),
    ]


def test_commits(reader: HistoryReader) -> None:
    columns = ("at", "change", "committed_offset", "member_id")
    assert ask(reader, question_called("offsets").sql(WATCHED), *columns) == [
        (4.5, "committed", 5, None),
        (35.0, "committed", 0, ""),
    ]


def test_a_timeline(told: list[AnyEvent]) -> None:
    story = Story.of_events("g", enumerate(told))
    drawn = timeline_svg(story, WHOLE.since, WHOLE.until)
    assert "for an unknown cause" in drawn
    assert [each.committed_offset for each in story.resets] == [0]
