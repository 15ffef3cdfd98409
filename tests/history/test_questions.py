"""What is asked of the tables, and that Spark and DataFusion answer it alike."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from group_coordinator.history.questions import QUESTIONS, About, Period, fleet, question_called, text, time
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import read_event, time_of
from tests.history import consumers
from tests.history.filled import DAY, HANDOVER, MOVING, NIGHT, Tables
from tests.history.plain import lag_rows, write_plain_tables
from tests.history.scripts import TOPIC, a_day, a_night, bodies, events, renamed

WHOLE = Period(time_of(0), time_of(60_000))
NIGHTSHIFT = About(NIGHT, WHOLE)
ABOUTS = {
    "all": NIGHTSHIFT,
    "a moment": About(NIGHT, Period(time_of(6_000), time_of(6_000))),
    "a minute": About(NIGHT, Period(time_of(0), time_of(0))),
    "some seconds": About(NIGHT, Period(time_of(5_000), time_of(12_000))),
    "a member": NIGHTSHIFT._replace(member="c2"),
    "an instance": NIGHTSHIFT._replace(member="C3"),
    "a partition": NIGHTSHIFT._replace(topic=TOPIC, partition=4),
    "a handover": About(MOVING, WHOLE),
    "a moment of a handover": About(MOVING, Period(time_of(6_500), time_of(6_500)), "c-m2"),
    "nobody": About("nobody's \\ group", WHOLE),
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> HistoryReader:
    """The stories that `filled` tells, written without Spark."""
    path = tmp_path_factory.mktemp("questions")
    days = [renamed(DAY, f"group-{letter}") for letter in "abcd"]
    stories = [*days, renamed(bodies(a_night()), NIGHT)]
    told = (filter(None, map(read_event, story)) for story in stories)
    write_plain_tables(path, *told, lag=lag_rows(NIGHT, (2, 10), (20, 30), (59, 0)))
    return HistoryReader(str(path))


def seconds(value: Any) -> Any:
    """Times as seconds since midnight."""
    return (value - time_of(0)) / timedelta(seconds=1) if hasattr(value, "tzinfo") else value


def answers(reader: HistoryReader, name: str, about: About, *columns: str) -> list[tuple[Any, ...]]:
    (question,) = (each for each in QUESTIONS if each.name == name)
    found = reader.query(question.sql(about)).to_pylist()
    return [tuple(seconds(row[column]) for column in columns) for row in found]


@pytest.mark.spark
@pytest.mark.verify
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda it: it.name)
@pytest.mark.parametrize("about", ABOUTS.values(), ids=list(ABOUTS))
def test_spark_and_datafusion_answer_alike(tables: Tables, question: Any, about: About) -> None:
    sql = question.sql(about)
    # Spark's Python times have no zone; the session's is UTC.
    ours = [
        tuple(it.replace(tzinfo=None) if hasattr(it, "tzinfo") else it for it in row.values())
        for row in HistoryReader(tables.path).query(sql).to_pylist()
    ]
    assert ours == tables.ask_spark(sql)


FLEETS: dict[str, dict[str, Any]] = {
    "all": {},
    "a cause": {"cause": "session_expired"},
    "a member": {"member": "C3"},
    "a topic": {"topic": TOPIC},
    "a partition of a member": {"member": "c1", "topic": TOPIC, "partition": 5},
    "nobody's \\ topic": {"topic": "nobody's \\ topic"},
}


@pytest.mark.spark
@pytest.mark.verify
@pytest.mark.parametrize("chosen", FLEETS.values(), ids=list(FLEETS))
@pytest.mark.parametrize("period", [WHOLE, Period(time_of(7_000), time_of(26_000))])
def test_they_say_the_same_of_all_groups(tables: Tables, chosen: dict[str, Any], period: Period) -> None:
    sql = fleet(period, **chosen)
    ours = [
        tuple(it.replace(tzinfo=None) if hasattr(it, "tzinfo") else it for it in row.values())
        for row in HistoryReader(tables.path).query(sql).to_pylist()
    ]
    assert ours == tables.ask_spark(sql)


# -- all groups ------------------------------------------------------------------------------------------


def overview(reader: HistoryReader, period: Period, *columns: str, **chosen: Any) -> list[tuple[Any, ...]]:
    found = reader.query(fleet(period, **chosen)).to_pylist()
    return [tuple(seconds(row[column]) for column in ("group_id", *columns)) for row in found]


def test_which_groups_are_worst(reader: HistoryReader) -> None:
    columns = ("rebalances", "last_cause", "not_stable_ms", "longest_ms", "last_move")
    day = (3, "member_left", 2_000, 2_000, 20)
    assert overview(reader, WHOLE, *columns) == [
        # It has not been Stable since 25 s, and all that time counts.
        (NIGHT, 4, "member_left", 6_300 + 35_000, 3_100, 25),
        *((f"group-{letter}", *day) for letter in "abcd"),
    ]


def test_only_the_part_of_a_rebalance_in_the_period_counts(reader: HistoryReader) -> None:
    # A rebalance lasts from 15 s to 18.1 s, and one from 10 s to 12.1 s.
    columns = ("rebalances", "last_cause", "not_stable_ms", "not_stable_percent")
    for since, until, expected in [
        (16_000, 17_000, [(NIGHT, 0, "leader_rejoined", 1_000, 100.0)]),
        (11_000, 16_000, [(NIGHT, 1, "leader_rejoined", 2_100, 42.0)]),
    ]:
        found = overview(reader, Period(time_of(since), time_of(until)), *columns)
        assert [row for row in found if row[0] == NIGHT] == expected


def test_all_groups_that_had_such_a_rebalance_member_or_topic(reader: HistoryReader) -> None:
    days = [f"group-{letter}" for letter in "abcd"]

    def found(**chosen: Any) -> list[str]:
        return [group_id for (group_id,) in overview(reader, WHOLE, **chosen)]

    assert found(cause="session_expired") == days
    assert found(cause="leader_rejoined") == [NIGHT]
    assert found(member="C3") == [NIGHT]
    assert found(member="c2") == [NIGHT, *days]
    assert found(topic=TOPIC, partition=5) == [NIGHT]
    assert found(member="c2", cause="session_expired", topic=TOPIC) == days
    assert found(topic="nobody's") == []


def test_a_group_that_did_not_move_is_there_with_its_lag(tmp_path: Path) -> None:
    write_plain_tables(tmp_path, lag=[*lag_rows("slow", (2, 10), (50, 30)), *lag_rows("gone", (59, 1))])
    reader = HistoryReader(str(tmp_path))
    columns = ("rebalances", "last_cause", "not_stable_ms", "records", "age_ms", "trend")
    # Both topics count, and of them the newest measurement.
    assert overview(reader, WHOLE, *columns) == [
        ("slow", 0, None, 0, 60, 3_000, "growing"),
        ("gone", 0, None, 0, 2, 100, "growing"),
    ]
    # One that had members is there as well, although nothing happened to it.
    write_plain_tables(tmp_path, events(a_night()))
    later = Period(time_of(40_000), time_of(41_000))
    found = overview(HistoryReader(str(tmp_path)), later, "rebalances", "not_stable_ms")
    assert found == [("orders", 0, 1_000)]
    later = Period(time_of(200_000_000), time_of(200_001_000))
    found = overview(HistoryReader(str(tmp_path)), later, "rebalances", "not_stable_ms")
    assert found == [("orders", 0, 0)]
    # A measurement of more than an hour before the end of the period says nothing of it.
    assert overview(reader, Period(time_of(0), time_of(7_200_000))) == []


# -- the questions ---------------------------------------------------------------------------------------


def test_why_were_there_so_many_rebalances(reader: HistoryReader) -> None:
    columns = ("began", "took_ms", "cause", "generation_id", "members", "last_to_join", "joined_after_ms")
    assert answers(reader, "rebalances", NIGHTSHIFT, *columns) == [
        (0.5, 0, "member_joined", 2, 3, "c1", 0),
        (5.0, 1_100, "leader_rejoined", 3, 3, "c2", 1_100),
        (10.0, 2_100, "leader_rejoined", 4, 3, "c2", 2_100),
        (15.0, 3_100, "leader_rejoined", 5, 3, "c2", 3_100),
        # It goes on.
        (25.0, None, "member_left", None, None, None, None),
    ]
    (reason,) = {reason for (reason,) in answers(reader, "rebalances", NIGHTSHIFT, "reason")[1:4]}
    assert reason.endswith("leads and joined again: topics have changed")


@pytest.mark.parametrize(
    ("moment_ms", "began"),
    [(499, []), (500, [0.5]), (11_000, [10.0, 5.0]), (14_999, [10.0, 5.0]), (0, [25.0, 15.0])],
)
def test_why_did_it_rebalance_then(reader: HistoryReader, moment_ms: int, began: list[float]) -> None:
    about = About(NIGHT, Period(time_of(moment_ms), time_of(moment_ms)))
    assert [each for (each,) in answers(reader, "rebalances", about, "began")] == began


def test_which_causes_cost_most(reader: HistoryReader) -> None:
    assert answers(
        reader, "causes", NIGHTSHIFT, "cause", "rebalances", "total_ms", "average_ms", "longest_ms"
    ) == [("leader_rejoined", 3, 6_300, 2_100, 3_100), ("member_joined", 1, 0, 0, 0)]


def test_who_keeps_the_others_waiting(reader: HistoryReader) -> None:
    found = answers(
        reader,
        "joins",
        NIGHTSHIFT,
        *("client_id", "joins", "last_to_join", "waited_for_ms", "average_ms", "longest_ms"),
    )
    # Of each of the three phases c1 has begun, and c3 has joined 100 ms later.
    assert found[0] == ("c2", 4, 3, 6_000, 1_575, 3_100)
    assert {row[0] for row in found} == {"c1", "c2", "c3"}


def test_what_state_was_it_in(reader: HistoryReader) -> None:
    assert answers(reader, "states", ABOUTS["a moment"], "since", "until", "state", "generation_id") == [
        (5.0, 6.1, "PreparingRebalance", 2)
    ]


def test_who_was_in_and_why_did_they_go(reader: HistoryReader) -> None:
    columns = ("client_id", "group_instance_id", "since", "until", "reason")
    assert answers(reader, "members", NIGHTSHIFT, *columns) == [
        ("c1", None, 0.5, None, None),
        ("c2", None, 0.5, 25.0, "left"),
        ("c3", "C3", 0.5, 20.0, "replaced"),
        ("c3", "C3", 20.0, None, None),
    ]


def test_who_owned_this_partition_then(reader: HistoryReader) -> None:
    moment = Period(time_of(6_000), time_of(6_000))
    about = About(NIGHT, moment, topic=TOPIC, partition=3)
    # In the middle of a rebalance: nobody else has been given it yet.
    assert answers(reader, "assignments", about, "client_id", "generation_id", "since", "until") == [
        ("c2", 2, 0.5, 6.1)
    ]


def test_what_did_this_program_own(reader: HistoryReader) -> None:
    about = NIGHTSHIFT._replace(member="C3", topic=TOPIC, partition=4)
    assert answers(reader, "assignments", about, "generation_id", "since", "until") == [
        (2, 0.5, 6.1),
        (3, 6.1, 12.1),
        (4, 12.1, 18.1),
        (5, 18.1, 20.0),
        (5, 20.0, None),
    ]


def test_did_the_offset_go_back(reader: HistoryReader) -> None:
    columns = ("at", "partition", "change", "committed_offset", "principal", "client_id")
    assert answers(reader, "offsets", NIGHTSHIFT, *columns) == [
        (20.0, 0, "committed", 7, None, "c1"),
        (20.0, 1, "committed", 9, None, "c1"),
        (25.0, 0, "committed", 5, "bob", "c1"),
    ]


def test_how_far_was_it_behind(reader: HistoryReader) -> None:
    about = About(NIGHT, Period(time_of(20_000), time_of(60_000)))
    assert answers(reader, "lag", about, "at", "topic", "records", "age_ms", "trend") == [
        (20.0, "orders", 30, 3_000, "growing"),
        (20.0, "refunds", 30, 3_000, "growing"),
        (59.0, "orders", 0, 0, "growing"),
        (59.0, "refunds", 0, 0, "growing"),
    ]


def test_all_that_happened(reader: HistoryReader) -> None:
    found = answers(reader, "events", ABOUTS["some seconds"], "at", "event")
    assert found[0] == (5.0, "member_rejoined")
    assert found[-1][0] < 12.0


def test_who_did_it(reader: HistoryReader) -> None:
    late = About(NIGHT, Period(time_of(25_000), time_of(26_000)))
    assert answers(reader, "events", late, "event", "principal") == [
        ("offsets_committed", "bob"),
        ("member_removed", "carol"),
        ("state_changed", "carol"),
    ]
    assert answers(reader, "states", late, "since", "state", "principal")[-1] == (
        25.0,
        "PreparingRebalance",
        "carol",
    )


def test_tables_that_the_writer_has_not_added_a_column_to_are_read(tmp_path: Path) -> None:
    tables = ("events", "transitions", "joins", "offsets")
    events = list(filter(None, map(read_event, renamed(bodies(a_night()), NIGHT))))
    lacking = [*(f"{it}.principal" for it in tables), "offsets.client_reason", "offsets.topic_id"]
    write_plain_tables(tmp_path, events, without=lacking)
    old = HistoryReader(str(tmp_path))
    for question in QUESTIONS:
        found = old.query(question.sql(NIGHTSHIFT))
        assert len(found) or question.name in ("lag", "waits")
        if "principal" in found.column_names:
            assert set(found["principal"].to_pylist()) == {None}
    story = old.story(NIGHT, *WHOLE)
    assert (len(story.transitions) > 1, story.lag) == (True, [])
    rows = list(old.newest_offsets({NIGHT: (time_of(60_000), 0)}))
    assert rows
    assert {(row.client_reason, row.topic_id) for row in rows} == {(None, None)}


# -- stories ---------------------------------------------------------------------------------------------


def test_a_story_has_what_happened_and_what_lasted(reader: HistoryReader) -> None:
    story = reader.story(NIGHT, time_of(7_000), time_of(11_000))

    # The state at the beginning is that of the last move before.
    assert [(seconds(each.at), each.to_state) for each in story.transitions] == [
        (6.1, "CompletingRebalance"),
        (6.1, "Stable"),
        (10.0, "PreparingRebalance"),
    ]
    assert {each.generation_id for each in story.generations} == {3}
    assert [each.client_id for each in story.joins] == ["c1", "c3"]
    assert sorted(each.client_id or "" for each in story.memberships) == ["c1", "c2", "c3"]
    assert {each.generation_id for each in story.assignments} == {3}


def test_a_story_has_the_offsets_that_no_member_committed(tmp_path: Path) -> None:
    s = a_day()
    for number in range(3):
        partitions = [{"partition_index": 0, "committed_offset": number}]
        topics = [{"name": TOPIC, "partitions": partitions}]
        s.send("offset_commit", "tool", topics=topics, principal=f"user-{number}")
        s.wait(1_000)
    write_plain_tables(tmp_path, events(s))
    story = HistoryReader(str(tmp_path)).story("orders", time_of(0), time_of(22_000))
    assert [(each.principal, each.committed_offset) for each in story.resets] == [
        ("user-0", 0),
        ("user-1", 1),
    ]


def test_a_story_has_the_lag_of_all_topics(reader: HistoryReader) -> None:
    lag = reader.story(NIGHT, *WHOLE).lag
    assert [(seconds(each.at), seconds(each.until), each.records, each.age_ms) for each in lag] == [
        (2, 32, 20, 1_000),
        (20, 50, 60, 3_000),
        (59, 89, 0, 0),
    ]
    # Of a long time it is the greatest of each part, so that a picture of it stays small.
    (one,) = reader.story(NIGHT, time_of(0), time_of(0) + timedelta(days=1)).lag
    assert (seconds(one.at), seconds(one.until), one.records, one.age_ms) == (2, 89, 60, 3_000)
    assert reader.story("group-a", *WHOLE).lag == []


def test_how_far_it_reaches(reader: HistoryReader, tmp_path: Path) -> None:
    assert seconds(reader.reaches_to()) == 25
    write_plain_tables(tmp_path, [])
    assert HistoryReader(str(tmp_path)).reaches_to() is None


def test_groups(reader: HistoryReader) -> None:
    assert reader.groups() == [*(f"group-{letter}" for letter in "abcd"), NIGHT]


# -- words -----------------------------------------------------------------------------------------------


def test_words_are_quoted() -> None:
    assert text("it's") == "'it''s'"
    assert text("a\\b'") == "concat('a', chr(92), 'b''')"
    assert time(time_of(1_500)) == "TIMESTAMP '1970-01-01 00:00:01.500+00:00'"


# -- the consumer protocol -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> HistoryReader:
    path = tmp_path_factory.mktemp("moving")
    write_plain_tables(path, list(filter(None, map(read_event, renamed(HANDOVER, MOVING)))))
    return HistoryReader(str(path))


def test_who_still_holds_what_another_one_waits_for_and_since_when(moving: HistoryReader) -> None:
    columns = ("partition", "held_by", "waited_for_by", "since", "until", "assignment_epoch")
    both = [(number, "c-m1", "c-m2", 5, 8, 3) for number in (2, 3)]

    def found(at_ms: int | None = None, **narrowed: Any) -> list[tuple[Any, ...]]:
        period = WHOLE if at_ms is None else Period(time_of(at_ms), time_of(at_ms))
        return answers(moving, "waits", About(MOVING, period, **narrowed), *columns)

    assert found() == found(6_500) == both
    assert found(4_000) == found(8_000) == []
    assert found(member="m1") == found(member="c-m2") == both
    assert found(member="m3") == found(topic="refunds") == []
    assert found(topic=TOPIC, partition=3) == both[1:]
    rows = moving.ask("waits", MOVING, at=time_of(6_500), partition=2).to_pylist()
    assert [(row["holder_id"], row["waiting_id"]) for row in rows] == [("m1", "m2")]


def test_rebalances_of_the_consumer_protocol(moving: HistoryReader) -> None:
    columns = ("began", "took_ms", "ended_in", "cause", "generation_id", "members")
    assert answers(moving, "rebalances", About(MOVING, WHOLE), *columns) == [
        (1, 0, "Stable", "member_joined", 2, 1),
        (5, 4_000, "Stable", "member_joined", 3, 2),
        (20, 1_000, "Stable", "member_left", 4, 1),
    ]
    columns = ("rebalances", "last_cause", "not_stable_ms", "longest_ms")
    assert overview(moving, WHOLE, *columns) == [(MOVING, 3, "member_left", 5_000, 4_000)]
    assert answers(moving, "causes", About(MOVING, WHOLE), "cause", "rebalances", "total_ms") == [
        ("member_joined", 2, 4_000),
        ("member_left", 1, 1_000),
    ]


def test_a_member_that_was_in_twice_is_named_once(tmp_path: Path) -> None:
    write_plain_tables(tmp_path, consumers.events(consumers.a_day_of_troubles()))
    about = About("orders", Period(time_of(0), time_of(90_000)), "m2", "orders", 3)
    assert answers(HistoryReader(str(tmp_path)), "assignments", about, "client_id", "since", "until") == [
        ("c-m2", 1, 40),
        ("c-m2", 70, 80),
    ]


def test_tables_of_a_version_that_knew_no_waits_are_read(tmp_path: Path) -> None:
    events = list(filter(None, map(read_event, renamed(HANDOVER, MOVING))))
    write_plain_tables(tmp_path, events, without=["waits", "assignments.revoking_since"])
    old = HistoryReader(str(tmp_path))

    assert len(old.query(question_called("waits").sql(About(MOVING, WHOLE)))) == 0
    story = old.story(MOVING, *WHOLE)
    assert (story.waits, len(story.assignments)) == ([], 8)
    assert {each.revoking_since for each in story.assignments} == {None}


def test_a_group_without_members_that_becomes_empty_at_once_has_not_rebalanced(tmp_path: Path) -> None:
    group = consumers.Consumers({"orders": 1})
    group.join("m1")
    group.at(5_000)
    group.leave("m1")
    write_plain_tables(tmp_path, consumers.events(group))
    found = overview(HistoryReader(str(tmp_path)), WHOLE, "rebalances", "not_stable_ms")
    assert found == [("orders", 1, 0)]
