from __future__ import annotations

import json
from itertools import chain
from typing import Any

import msgspec
import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.sql.streaming.state import GroupState

from group_coordinator.checkpoints.ledger import Begun, Notes
from group_coordinator.coordinator_state.clocks import Leeway, Span
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from group_coordinator.streaming import spool
from group_coordinator.streaming.function import INPUT_COLUMNS, FunctionArguments, StatefulFunction
from group_coordinator.streaming.settings import CoordinatorSettings
from tests.streaming.states import group_state

KEY = b"orders"
TOPICS = {channel: f"t.{channel.value}" for channel in Channel}
ARGUMENTS = FunctionArguments(
    config=GroupConfig(group_initial_rebalance_delay_ms=0),
    layout=Layout(),
    secret=b"secret",
    request_topic="requests",
    output_topics=TOPICS,
)


def frame(*rows: tuple[int, int, int, bytes | None]) -> pd.DataFrame:
    """Rows of the input columns, with the types that Arrow gives them."""
    return pd.DataFrame(rows, columns=list(INPUT_COLUMNS)).astype(
        {"partition": "int32", "offset": "int64", "timestamp_ms": "int64"}
    )


def join(client_id: str, **fields: Any) -> bytes:
    """A join as old clients send it: it makes a member at once."""
    request = {
        "api": "join_group",
        "api_version": 3,
        "request_id": f"{client_id}-1",
        "client_id": client_id,
        "group_id": KEY.decode(),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": ""}],
    }
    return json.dumps(request | fields).encode()


def call(key: bytes | None, state: GroupState, *frames: pd.DataFrame) -> tuple[pd.DataFrame, StepResult]:
    """Call the function; its one frame (empty if there is none) and what it gave to be counted."""
    counted: list[StepResult] = []
    function = StatefulFunction(ARGUMENTS, counted.append)
    made = list(function((key,), iter(frames), state))
    assert len(made) <= 1
    (result,) = counted
    return made[0] if made else pd.DataFrame(
        columns=["topic", "key", "value", "partition", "headers"]
    ), result


def stepped(
    key: bytes | None, stored: bytes | None, watermark_ms: int, *rows: Any, span: Span | None = None
) -> StepResult:
    """What the core makes of the same."""
    records = [Record("requests", *row[:3], key, row[3]) for row in rows]
    return step(key, stored, records, watermark_ms, ARGUMENTS.config, ARGUMENTS.secret, span=span)


def rows_of(result: StepResult) -> list[tuple[Any, ...]]:
    return [
        (
            TOPICS[out.channel],
            out.key,
            out.value,
            out.partition,
            None if out.place is None else [("place", str(out.place).encode())],
        )
        for out in result.outputs
    ]


def rows_in(made: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(made.itertuples(index=False, name=None))


def a_member() -> StepResult:
    """A group with one member, whose session ends 10 s after 1,000."""
    return stepped(KEY, None, 0, (0, 0, 1_000, join("c1")))


def test_a_request_becomes_rows_for_the_sink_and_state() -> None:
    state = group_state(None, 0)
    made, counted = call(KEY, state, frame((0, 0, 1_000, join("c1"))))
    expected = a_member()

    assert rows_in(made) == rows_of(expected)
    assert (state.get, counted) == ((expected.state,), expected)
    assert expected.deadline_ms is not None
    assert json.loads(state.json())["timeoutTimestamp"] == expected.deadline_ms - 1


def test_the_stored_group_goes_on() -> None:
    stored = a_member().state
    state = group_state(stored, 0)
    row = (0, 1, 2_000, join("c2"))
    made, _ = call(KEY, state, frame(row))
    expected = stepped(KEY, stored, 0, row)

    assert rows_in(made) == rows_of(expected)
    assert state.get == (expected.state,)


def test_data_in_several_frames_is_one_log() -> None:
    rows = [(0, offset, 1_000 + offset, join(f"c{offset}")) for offset in range(4)]
    state = group_state(None, 0)
    # Spark's shuffle may mix them, too.
    made, _ = call(KEY, state, frame(rows[2]), frame(rows[0], rows[3]), frame(), frame(rows[1]))
    expected = stepped(KEY, None, 0, *rows)

    assert rows_in(made) == rows_of(expected)
    assert state.get == (expected.state,)


def test_a_timed_out_call_without_data_lets_time_pass() -> None:
    stored, deadline = a_member().state, a_member().deadline_ms
    assert deadline is not None
    state = group_state(stored, deadline, timed_out=True)
    made, counted = call(KEY, state)
    expected = stepped(KEY, stored, deadline)

    assert rows_in(made) == rows_of(expected)
    assert counted == expected


def test_the_next_timeout_is_not_before_the_watermark() -> None:
    """Or Spark refuses it, and the query ends."""
    stored, deadline = a_member().state, a_member().deadline_ms
    assert deadline is not None
    for watermark_ms in (deadline - 1, deadline):
        state = group_state(stored, watermark_ms, timed_out=True)
        call(KEY, state)

        assert json.loads(state.json())["timeoutTimestamp"] >= watermark_ms


def test_a_group_that_is_gone_leaves_no_state() -> None:
    stored = a_member().state
    state = group_state(stored, 10**9, timed_out=True)
    made, _ = call(KEY, state)

    assert json.loads(state.json())["removed"] is True
    assert not state.exists
    assert rows_in(made)[-1][:-1] == ("t.groups", KEY, None, None)


def test_nothing_is_removed_where_nothing_was() -> None:
    state = group_state(None, 0)
    call(KEY, state, frame((0, 0, 1_000, b"garbage")))

    answer = json.loads(state.json())
    assert (answer["defined"], answer["updated"], answer["removed"]) == (False, False, False)
    assert answer["timeoutTimestamp"] == GroupState.NO_TIMESTAMP


def test_records_without_a_key_are_rejected() -> None:
    state = group_state(None, 0)
    made, counted = call(None, state, frame((1, 7, 1_000, join("c1"))))

    assert list(made["topic"]) == ["t.responses", "t.rejected"]
    assert json.loads(made["value"][0])["error"] == "INVALID_REQUEST"
    assert made["key"][1] is None
    assert len(counted.rejections) == 1


def test_a_record_without_a_value_is_rejected() -> None:
    made, _ = call(KEY, group_state(None, 0), frame((0, 0, 1_000, None)))

    assert list(made["topic"]) == ["t.rejected"]
    assert json.loads(made["value"][0])["value"] is None


def test_the_key_and_the_state_may_be_any_kind_of_bytes() -> None:
    stored = a_member().state
    assert stored is not None
    state = group_state(bytearray(stored), 0)  # type: ignore[arg-type]
    row = (0, 1, 2_000, join("c2"))
    made, _ = call(bytearray(KEY), state, frame(row))  # type: ignore[arg-type]

    assert rows_in(made) == rows_of(stepped(KEY, stored, 0, row))


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [((None, None), [None, None]), ((None, 3), [None, 3]), ((3, 2), [3, 2])],
)
def test_the_partition_is_a_number_or_null(
    partitions: tuple[int | None, ...], expected: list[int | None]
) -> None:
    rows = [
        (0, offset, 1_000, join("", request_id=f"r{offset}", reply_partition=partition, protocols=[]))
        for offset, partition in enumerate(partitions)
    ]
    made, _ = call(KEY, group_state(None, 0), frame(*rows))
    answers = made[made["topic"] == "t.responses"]

    assert answers["partition"].tolist() == expected
    assert [type(it) for it in answers["partition"].tolist()] == [type(it) for it in expected]


def test_no_frame_without_outputs() -> None:
    stored = a_member().state
    made, _ = call(KEY, group_state(stored, 1_500))

    assert rows_in(made) == []


# -- the log ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "told"), [("info", True), ("warning", False)])
def test_what_is_decided_is_logged_here(level: str, told: bool, capfd: pytest.CaptureFixture[str]) -> None:
    function = StatefulFunction(ARGUMENTS._replace(log_level=level, log_format="json"), lambda _: None)
    list(function((KEY,), iter([frame((0, 0, 1_000, join("c1")))]), group_state(None, 0)))

    events = [json.loads(line)["event"] for line in capfd.readouterr().err.splitlines()]
    assert ("member_added" in events) is told


def test_it_logs_as_the_settings_say() -> None:
    settings = CoordinatorSettings.load(
        None,
        {},
        {"bootstrap.servers": "b", "checkpoint": "c", "log.level": "debug", "log.format": "json"},
    )
    arguments = FunctionArguments.of(
        settings, b"", dict.fromkeys(["coordinator.requests", "coordinator.responses"], 1)
    )

    assert (arguments.log_level, arguments.log_format) == ("debug", "json")


def test_when_many_groups_are_asked_about_at_once_each_is_told_one_answer() -> None:
    config = msgspec.structs.replace(ARGUMENTS.config, max_read_bytes=1_000)
    function = StatefulFunction(ARGUMENTS._replace(config=config), lambda _: None)
    question = {"api": "describe_group", "client_id": "c", "group_id": "orders"}
    asked = [
        (0, 7 + number, 2_000, json.dumps(question | {"request_id": f"{number}"})) for number in range(9)
    ]
    answered: list[list[str]] = []
    for _ in range(12):
        state = group_state(stepped(KEY, None, 0, (0, 0, 1_000, join("c" * 100))).state, 0)
        (made,) = function((KEY,), iter([frame(*((*row, value.encode()) for *row, value in asked))]), state)
        answered.append([json.loads(value)["error"] for value in made["value"]])
    served = [errors.count("NONE") for errors in answered]
    assert 1 < served[0] < 9, "the limit is that of one group"
    assert set(served) == {served[0], 1}
    # Each of these took more than its limit.
    assert 1 < served.index(1) <= 8
    assert sorted(served, reverse=True) == served
    assert {error for errors in answered for error in errors} == {"NONE", "COORDINATOR_LOAD_IN_PROGRESS"}


# -- clocks ----------------------------------------------------------------------------------------------

LEEWAY = Leeway(later_ms=3_500, earlier_ms=3_000)
BEGUN = Begun(batch=4, ahead_ms=50, until_ms=LATEST_MS)
SPAN = Span(watermark_ms=9_000, earliest_ms=6_000, latest_ms=13_550, planned_ms=10_050)
"""Of a batch that was planned at 10,000 by the driver's clock, with a watermark of 9,000."""


def planned_state(stored: bytes | None = None) -> GroupState:
    """As a task of that batch is given it."""
    return group_state(stored, SPAN.watermark_ms, planned_ms=10_000)


def in_batch(
    number: int | None, notes: Notes, state: GroupState, *records: tuple[int, int, int, bytes]
) -> list[tuple[Any, ...]]:
    """The rows that a task of that batch makes of a group's records; None: of no batch of a query."""
    function = StatefulFunction(ARGUMENTS._replace(notes=notes, leeway=LEEWAY), lambda _: None)
    properties = {} if number is None else {"streaming.sql.batchId": str(number)}
    TaskContext._setTaskContext(TaskContext(localProperties=properties))
    try:
        return list(chain.from_iterable(function.parts((KEY,), records, state)))
    finally:
        TaskContext._setTaskContext(None)


def told(rows: list[tuple[Any, ...]], *tags: str) -> list[dict[str, Any]]:
    """The events with these tags."""
    events = [json.loads(value) for topic, _, value, *_ in rows if topic == "t.events"]
    return [event for event in events if event["event"] in tags]


@pytest.mark.parametrize(
    ("time_ms", "is_wrong"), [(13_550, False), (13_551, True), (6_000, False), (5_999, True), (0, True)]
)
def test_a_request_of_a_time_that_cannot_be_counts_as_of_the_plan_and_that_is_told(
    time_ms: int, is_wrong: bool
) -> None:
    state = planned_state()
    request = (0, 7, time_ms, join("c1"))
    rows = in_batch(4, Notes(begun=(BEGUN,)), state, request)

    expected = stepped(KEY, None, SPAN.watermark_ms, request, span=SPAN)
    assert rows == rows_of(expected)
    assert state.get == (expected.state,)
    (added,) = told(rows, "member_added")
    assert added["at_ms"] == (10_050 if is_wrong else time_ms)
    assert [
        (it["partition"], it["offset"], it["appended_ms"], it["shift_ms"], it["skipped_ms"])
        for it in told(rows, "clock_corrected", "request_late")
    ] == ([(0, 7, time_ms, 10_050 - time_ms, 1_050)] if is_wrong else [])


def test_a_group_keeps_what_it_knows_of_a_clock_until_that_is_right_again() -> None:
    notes = Notes(begun=(BEGUN,))
    stored: bytes | None = None
    found = []
    for offset, time_ms in enumerate((22_050, 21_900, 9_900)):
        state = planned_state(stored)
        request = join(f"c{offset}")
        rows = in_batch(4 + offset, notes, state, (0, offset, time_ms, request))
        (added,) = told(rows, "member_added")
        found.append((added["at_ms"], [it["shift_ms"] for it in told(rows, "clock_corrected")]))
        (stored,) = state.get
    # The last one is earlier than the group's time, which does not go back.
    assert found == [(10_050, [-12_000]), (10_050, []), (10_050, [0])]


@pytest.mark.parametrize("held", [0, 10**9])
def test_a_request_of_a_clock_that_is_wrong_comes_before_those_of_other_partitions(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where large values wait on disk: no time counts for others before it."""
    monkeypatch.setattr(spool, "_HELD_BYTES", held)
    large = join("c2", protocols=[{"name": "range", "metadata": "AAAA" * 500}])
    requests = [(0, 3, 9_500, join("c1")), (1, 8, 99_000, large), (0, 4, 9_600, join("c3"))]
    rows = in_batch(4, Notes(begun=(BEGUN,)), planned_state(), *requests)

    assert [(it["client_id"], it["at_ms"]) for it in told(rows, "member_added")] == [
        ("c2", 10_050),
        ("c1", 10_050),
        ("c3", 10_050),
    ]
    assert rows == rows_of(stepped(KEY, None, SPAN.watermark_ms, *requests, span=SPAN))


@pytest.mark.parametrize(
    ("notes", "at_ms", "is_wrong"),
    [
        (Notes((), (Standstill(0, 2_000, 8_500, end_batch=4),)), 8_500, False),
        (Notes((), (Standstill(1, 2_000, 8_500, end_batch=4),)), 10_050, True),
        (Notes((), (Standstill(0, 2_000, 8_500, end_batch=3),)), 10_050, True),
        # Time waits until a query has read what came in one.
        (Notes((Outage(2_000, 8_500, batch=4),)), 10_050, True),
    ],
    ids=["standstill", "of another partition", "standstill that was read", "outage"],
)
def test_a_request_that_waited_in_its_partition_is_not_taken_for_wrong(
    notes: Notes, at_ms: int, is_wrong: bool
) -> None:
    notes = msgspec.structs.replace(notes, begun=(BEGUN,))
    rows = in_batch(4, notes, planned_state(), (0, 7, 2_500, join("c1")))

    assert [it["at_ms"] for it in told(rows, "member_added")] == [at_ms]
    assert bool(told(rows, "clock_corrected")) is is_wrong


@pytest.mark.parametrize(
    ("time_ms", "event"), [(9_800, None), (9_801, "request_late"), (13_551, "clock_corrected")]
)
def test_what_a_query_reads_that_catches_up_came_before_it_began(time_ms: int, event: str | None) -> None:
    begun = (Begun(4, 50, until_ms=9_800), Begun(6, 50, LATEST_MS))
    request = (0, 7, time_ms, join("c1"))
    for batch in (4, 5):
        rows = in_batch(batch, Notes(begun=begun), planned_state(), request)
        assert [it["at_ms"] for it in told(rows, "member_added")] == [min(time_ms, 9_800)]
        found = [(it["event"], it["appended_ms"]) for it in told(rows, "clock_corrected", "request_late")]
        assert found == ([] if event is None else [(event, time_ms)])
    # The next query reads on.
    rows = in_batch(6, Notes(begun=begun), planned_state(), request)
    assert rows == rows_of(stepped(KEY, None, SPAN.watermark_ms, request, span=SPAN))


STANDS = Standstill(0, 2_000, batch=4)


@pytest.mark.parametrize(
    ("before", "after", "time_ms"),
    [
        (Notes(), Notes(begun=(Begun(5, -9_000, LATEST_MS),)), 13_600),
        (Notes(), Notes((Outage(9_200, 60_000, batch=5),)), 13_600),
        (Notes((), (STANDS,)), Notes((), (STANDS._replace(end_ms=9_900, end_batch=5),)), 9_500),
        (Notes(), Notes((), (STANDS._replace(batch=5),)), 9_500),
    ],
    ids=["another clock", "an outage", "a standstill that has ended since", "one that has begun since"],
)
def test_a_batch_that_runs_again_in_another_query_decides_the_same(
    before: Notes, after: Notes, time_ms: int
) -> None:
    """The batch after it does not."""
    before = msgspec.structs.replace(before, begun=(BEGUN,))
    after = msgspec.structs.replace(after, begun=(BEGUN, *after.begun))
    runs = []
    for number, notes in ((4, before), (4, after), (5, after)):
        state = planned_state(a_member().state)
        rows = in_batch(number, notes, state, (0, 7, time_ms, join("c2")))
        runs.append((rows, state.json(), state.get))
    first, again, next_one = runs
    assert first == again
    assert [it["client_id"] for it in told(first[0], "member_added")] == ["c2"]
    assert first[0] != next_one[0]


@pytest.mark.parametrize("begun", [(), (BEGUN._replace(batch=5),)], ids=["none", "of a later query"])
def test_where_nobody_says_how_plans_tell_time_every_time_can_be_right(begun: tuple[Begun, ...]) -> None:
    for time_ms in (0, 99_000):
        state = planned_state()
        request = (0, 7, time_ms, join("c1"))
        rows = in_batch(4, Notes(begun=begun), state, request)
        expected = stepped(KEY, None, SPAN.watermark_ms, request)
        assert rows == rows_of(expected)
        assert [it["at_ms"] for it in told(rows, "member_added")] == [time_ms]
        assert state.get == (expected.state,)


def test_what_is_no_batch_of_a_query_knows_the_newest_notes() -> None:
    notes = Notes((), (STANDS._replace(batch=9),), (BEGUN._replace(batch=9),))
    rows = in_batch(None, notes, planned_state(), (0, 7, 13_600, join("c1")))
    assert [it["at_ms"] for it in told(rows, "member_added", "clock_corrected")] == [2_000, 2_000]


@pytest.mark.parametrize("gap_ms", [3_000, 20_000])
def test_the_leeway_is_that_of_the_settings(gap_ms: int) -> None:
    """So that no clock that is taken for right moves time by more than a gap."""
    words = {"bootstrap.servers": "b", "checkpoint": "c", "clock.max.gap.ms": str(gap_ms)}
    settings = CoordinatorSettings.load(None, {}, words)
    arguments = FunctionArguments.of(
        settings, b"", dict.fromkeys(["coordinator.requests", "coordinator.responses"], 1)
    )
    assert arguments.leeway == Leeway(later_ms=gap_ms // 2 + 500, earlier_ms=gap_ms // 2)
    # If the newest tick that was read is no older than a second.
    planned_ms = 1_000_000
    span = Span.of(planned_ms, planned_ms - 1_500, arguments.leeway)
    assert planned_ms - span.earliest_ms <= gap_ms
    assert span.latest_ms - planned_ms <= gap_ms


# -- standstills -----------------------------------------------------------------------------------------


def standing(end_ms: int | None) -> StatefulFunction:
    """The function where the partition of `KEY` takes no requests since 2,000."""
    notes = Notes((), (Standstill(0, 2_000, end_ms),), (BEGUN,))
    return StatefulFunction(ARGUMENTS._replace(notes=notes, leeway=LEEWAY), lambda _: None)


def test_nothing_is_decided_about_a_group_while_its_partition_takes_no_requests() -> None:
    stored = a_member().state
    state = group_state(stored, 60_000, timed_out=True)
    assert list(standing(None)((KEY,), iter([]), state)) == []
    assert state.get == (stored,)
    # It is looked at again.
    assert json.loads(state.json())["timeoutTimestamp"] > 60_000


def test_a_standstill_that_is_over_puts_deadlines_off() -> None:
    state = group_state(a_member().state, 60_000, timed_out=True)
    assert list(standing(55_000)((KEY,), iter([]), state)) == []
    assert json.loads(state.json())["timeoutTimestamp"] == 11_000 + 53_000 - 1


def test_requests_of_a_partition_that_stands_still_count_as_of_when_that_began() -> None:
    """Nobody knows yet that it is over. None is refused, and nobody expires."""
    state = group_state(a_member().state, 60_000, planned_ms=60_000)
    times = {1: 2_000, 2: 2_001, 3: 59_000, 4: 99_000}
    records = [(0, offset, time_ms, join(f"c{offset + 1}")) for offset, time_ms in times.items()]
    (rows,) = standing(None).parts((KEY,), records, state)

    added = told(rows, "member_added")
    assert [(it["client_id"], it["at_ms"]) for it in added] == [(f"c{it + 1}", 2_000) for it in times]
    wrong = told(rows, "request_late", "clock_corrected")
    assert [(it["event"], it["offset"], it["appended_ms"], it["at_ms"]) for it in wrong] == [
        ("request_late", 2, 2_001, 2_000),
        ("request_late", 3, 59_000, 2_000),
        ("clock_corrected", 4, 99_000, 2_000),
    ]
    assert told(rows, "member_removed") == []
    assert json.loads(state.json())["timeoutTimestamp"] > 60_000
    # Those who were there have as much time left when it is over.
    after = group_state(state.get[0], 60_000, timed_out=True)
    assert list(standing(59_500).parts((KEY,), [], after)) == [[]]
    assert json.loads(after.json())["timeoutTimestamp"] == 11_000 + 57_500 - 1


def test_a_request_from_before_its_partition_stood_still_is_decided_as_when_that_is_over() -> None:
    decided = []
    for stood in (Standstill(0, 2_000), Standstill(0, 2_000, 58_000, end_batch=4)):
        state = group_state(a_member().state, 60_000, planned_ms=60_000)
        rows = in_batch(4, Notes((), (stood,), (BEGUN,)), state, (0, 1, 2_000, join("c2")))
        assert json.loads(state.json())["timeoutTimestamp"] > 60_000
        rest = standing(58_000).parts((KEY,), [], group_state(state.get[0], 70_000, timed_out=True))
        decided.append([rows, *rest])
    assert decided[0] == decided[1]
    assert told(decided[0][0], "state_changed")
    assert not told(decided[0][0], "request_late", "clock_corrected")
