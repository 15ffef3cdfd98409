"""The tables after batches of events: each event once, and spans that begin and end with them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from group_coordinator.history.errors import HistoryError
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import read_event, time_of
from group_coordinator.history.story import Story
from group_coordinator.history.writer import Written
from tests.history.filled import CUT, DAY, HANDOVER, MOVING, NAMES, UNKNOWN, PowerCutError, Tables
from tests.history.scripts import TOPIC, renamed

pytestmark = pytest.mark.spark


def test_each_event_is_there_once(tables: Tables) -> None:
    expected = renamed(DAY, "group-a")
    assert sorted(row["body"].encode() for row in tables.rows("events", "group-a")) == sorted(expected)
    assert len({row["event_id"] for row in tables.rows("events", "group-a")}) == len(expected)


def test_an_event_stands_where_it_stood_first(tables: Tables) -> None:
    rows = sorted(tables.rows("events", "group-a"), key=lambda row: row["log_offset"])
    assert [row["log_offset"] for row in rows] == list(range(len(DAY)))
    assert [row["body"].encode() for row in rows] == renamed(DAY, "group-a")


def test_a_batch_that_ran_again_has_told_everything_once(tables: Tables) -> None:
    assert tables.everything("group-b") == tables.everything("group-a")


@pytest.mark.verify
@pytest.mark.parametrize("until", ["membership", "assignments"])
def test_wherever_it_was_cut_off(tables: Tables, tmp_path: Path, until: str) -> None:
    cut = Tables(tables.spark, tmp_path)
    first, second = renamed(DAY, "group-c")[:CUT], renamed(DAY, "group-c")[CUT:]
    cut.write(*first)
    with pytest.raises(PowerCutError):
        cut.write(*second, until=until)
    cut.write(*first, *second, *second)
    assert cut.everything("group-c") == tables.everything("group-a")


def test_spans_of_the_consumer_protocol_go_on_from_batch_to_batch(tables: Tables) -> None:
    whole = Story.of_events(MOVING, enumerate(filter(None, map(read_event, renamed(HANDOVER, MOVING)))))
    story = HistoryReader(tables.path).story(MOVING, time_of(0), time_of(60_000))

    for name in ("memberships", "assignments", "waits"):
        found, expected = (sorted(getattr(it, name), key=repr) for it in (story, whole))
        assert found == expected != []


def test_what_came_before_comes_again_and_changes_nothing(tables: Tables) -> None:
    before = {table: tables.rows(table, "group-b") for table in NAMES}
    versions = [_version(tables, table) for table in ["events", *NAMES]]
    assert tables.write(*renamed(DAY, "group-b")) == Written({}, None)

    assert {table: tables.rows(table, "group-b") for table in NAMES} == before
    assert [_version(tables, table) for table in ["events", *NAMES]] == versions


def _version(tables: Tables, table: str) -> int:
    log = Path(tables.path) / table / "_delta_log"
    return max(int(each.stem) for each in log.glob("*.json"))


def test_an_event_with_the_id_of_another_one_is_refused(tables: Tables) -> None:
    """As when the topic of requests was made anew, and that of the events was not."""
    first = msgspec.json.decode(DAY[0])
    changes: list[dict[str, int]] = [{}, {"at_ms": first["at_ms"] + 1}, {"a_field_of_a_version_to_come": 1}]
    changed = [msgspec.json.encode(first | it) for it in changes]
    _, another, told_more = renamed(changed, "group-a")
    message = r"^two events have the id %s, because topics were deleted"

    assert tables.write(told_more) == Written({}, None)
    with pytest.raises(HistoryError, match=message % re.escape(f"group-a/{first['event_id']}")):
        tables.write(another)
    # Also where none of the two is known.
    unknown, another, _ = renamed(changed, "group-x")
    with pytest.raises(HistoryError, match=message % re.escape(f"group-x/{first['event_id']}")):
        tables.write(unknown, another)


def test_an_event_of_a_version_to_come_is_kept(tables: Tables) -> None:
    (row,) = tables.rows("events", "new")
    assert (row["event"], row["body"].encode()) == ("of_a_version_to_come", UNKNOWN)


def test_what_anybody_may_write_ends_no_batch(tables: Tables) -> None:
    """A batch that fails runs again, for ever."""
    event = msgspec.json.decode(DAY[0])

    def told(name: str, **fields: object) -> bytes:
        return msgspec.json.encode(event | {"event_id": name, "group_id": "hostile"} | fields)

    added = told("added", event="member_added", member_id="m", client_id="c", client_host="h")
    deep = b"[" * 990 + b"]" * 990
    hostile = [
        told("name").replace(b"hostile", b"hostile\xff"),
        told("more", more="x").replace(b'"x"', b'"\xff"'),
        told("deep", more="x").replace(b'"x"', deep),
        told("deeper", more="x").replace(b'"x"', b"[" * 100_000 + b"]" * 100_000),
        told("endless", more="x").replace(b'"x"', b"[" * 100_000),
        told("digits", more="x").replace(b'"x"', b"9" * 5_000),
        told("surrogate", more="x").replace(b'"x"', b'"\\ud800"'),
        *(told(f"at {at_ms}", at_ms=at_ms) for at_ms in (-1, 1 << 43, 1 << 62, (1 << 63) - 1, 1 << 63)),
        *(told(f"of {number}", generation_id=number) for number in (-1, 1 << 31, 1 << 63)),
        *(
            added.replace(b'"added"', b'"%d"' % ms).replace(b"{", b'{"join_phase_ms":%d,' % ms)
            for ms in (1 << 60,)
        ),
        *(b"", b"\xff", b"[]", b"{", b"null", b'"' + b"a" * 1_000_000 + b'"'),
    ]
    assert tables.write(*hostile, added).rows["events"] > 0

    names = {row["event_id"] for row in tables.rows("events", "hostile")}
    assert "added" in names
    assert not names & {"more", "deeper", "endless", *(name for name in names if name.startswith("at "))}
    assert "added" in {row["begun_by"] for row in tables.rows("membership", "hostile")}


def test_all_rows_are_of_the_day_that_they_begin(tables: Tables) -> None:
    days = {row["day"] for table in ["events", *NAMES] for row in tables.rows(table, "group-a")}
    assert days == {time_of(0).date()}


# -- what the tables say ---------------------------------------------------------------------------------


def test_moves(tables: Tables) -> None:
    rows = sorted(tables.rows("transitions", "group-a"), key=lambda row: row["log_offset"])
    assert [(row["to_state"], row["cause"], row["rebalance_ms"]) for row in rows] == [
        ("PreparingRebalance", "member_joined", None),
        ("CompletingRebalance", None, None),
        ("PreparingRebalance", "member_joined", None),
        ("CompletingRebalance", None, None),
        ("Stable", "member_joined", 0),
        ("PreparingRebalance", "session_expired", None),
        ("CompletingRebalance", None, None),
        ("Stable", "session_expired", 2_000),
        ("PreparingRebalance", "member_left", None),
        ("Empty", "member_left", 0),
    ]


def test_joins(tables: Tables) -> None:
    rows = sorted(tables.rows("joins", "group-a"), key=lambda row: row["log_offset"])
    assert [(row["client_id"], row["is_first"], row["join_phase_ms"]) for row in rows] == [
        ("c1", True, 0),
        ("c2", True, 0),
        ("c1", False, 0),
        ("c1", False, 2_000),
    ]


def test_generations(tables: Tables) -> None:
    rows = tables.rows("generations", "group-a")
    sizes = [sum(row["generation_id"] == each for row in rows) for each in (1, 2, 3)]
    assert sizes == [1, 2, 1]
    assert sum(row["is_leader"] for row in rows) == 3
    assert {(row["protocol_type"], row["protocol_name"]) for row in rows} == {("consumer", "range")}


def test_offsets(tables: Tables) -> None:
    assert [
        (row["topic"], row["partition"], row["change"], row["committed_offset"], row["client_id"])
        for row in tables.rows("offsets", "group-a")
    ] == [(TOPIC, 0, "committed", 7, "c1"), (TOPIC, 1, "committed", 9, "c1")]


def test_membership(tables: Tables) -> None:
    rows = sorted(tables.rows("membership", "group-a"), key=lambda row: row["client_id"])
    assert [(row["client_id"], row["since"].second, row["until"].second, row["reason"]) for row in rows] == [
        ("c1", 1, 20, "left"),
        ("c2", 1, 11, "session_expired"),
    ]


def test_assignments(tables: Tables) -> None:
    clients = {row["member_id"]: row["client_id"] for row in tables.rows("membership", "group-a")}
    rows = tables.rows("assignments", "group-a")
    assert sorted(
        (row["topic"], row["partition"], clients[row["member_id"]], row["since"].second, row["until"].second)
        for row in rows
    ) == [
        (TOPIC, 0, "c1", 1, 13),
        (TOPIC, 0, "c1", 13, 20),
        (TOPIC, 1, "c1", 13, 20),
        (TOPIC, 1, "c2", 1, 11),
    ]
