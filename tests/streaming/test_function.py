from __future__ import annotations

import json
from typing import Any

import msgspec
import pandas as pd
import pytest
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import Row, StructType

from group_coordinator.checkpoints.ledger import Notes
from group_coordinator.checkpoints.shifts import ClockJumpedError, Guard, Shift
from group_coordinator.checkpoints.standstills import StoodStillError
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.standstills import Standstill
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from group_coordinator.jobs.settings import Settings
from group_coordinator.streaming.function import INPUT_COLUMNS, FunctionArguments, StatefulFunction

KEY = b"orders"
TOPICS = {channel: f"t.{channel.value}" for channel in Channel}
ARGUMENTS = FunctionArguments(
    config=GroupConfig(group_initial_rebalance_delay_ms=0),
    layout=Layout(),
    secret=b"secret",
    request_topic="requests",
    output_topics=TOPICS,
)


def group_state(
    value: bytes | None, watermark_ms: int, *, timed_out: bool = False, planned_ms: int = 0
) -> GroupState:
    """A GroupState as a Python worker makes it from what the JVM sends."""
    return GroupState(
        optionalValue=Row(value),
        batchProcessingTimeMs=planned_ms,
        eventTimeWatermarkMs=watermark_ms,
        timeoutConf=GroupStateTimeout.EventTimeTimeout,
        hasTimedOut=timed_out,
        watermarkPresent=True,
        defined=value is not None,
        updated=False,
        removed=False,
        timeoutTimestamp=GroupState.NO_TIMESTAMP,
        keyAsUnsafe=b"",
        valueSchema=StructType(),
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


def stepped(key: bytes | None, stored: bytes | None, watermark_ms: int, *rows: Any) -> StepResult:
    """What the core makes of the same."""
    records = [Record("requests", *row[:3], key, row[3]) for row in rows]
    return step(key, stored, records, watermark_ms, ARGUMENTS.config, ARGUMENTS.secret)


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
    settings = Settings.load(
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


def test_append_times_count_with_their_shifts() -> None:
    shifts = (Shift(0, 1, 500), Shift(1, 0, 9_000))
    function = StatefulFunction(ARGUMENTS._replace(notes=Notes(shifts=tuple(shifts))), lambda _: None)
    first, second = join("c1"), join("c2")
    (made,) = function(
        (KEY,), iter([frame((0, 0, 1_000, first), (0, 1, 1_000, second))]), group_state(None, 0)
    )
    assert rows_in(made) == rows_of(stepped(KEY, None, 0, (0, 0, 1_000, first), (0, 1, 1_500, second)))


@pytest.mark.parametrize(
    ("time_ms", "is_refused"),
    [(13_550, False), (13_551, True), (6_000, False), (5_999, True), (1_550, True)],
)
def test_a_record_of_a_time_that_cannot_be_ends_the_task_before_any_is_decided(
    time_ms: int, is_refused: bool
) -> None:
    guard = Guard(ahead_ms=50, later_ms=3_500, earlier_ms=3_000)
    counted: list[StepResult] = []
    function = StatefulFunction(
        ARGUMENTS._replace(guard=guard, notes=Notes(shifts=(Shift(0, 8, 0),))), counted.append
    )
    state = group_state(None, 9_000, planned_ms=10_000)
    records = [(0, 6, 10_000, join("c1")), (0, 7, time_ms, join("c2"))]
    if not is_refused:
        assert list(function.parts((KEY,), records, state))
        return
    with pytest.raises(ClockJumpedError, match=r"\[CLOCK_JUMPED\] partition 0 offset 7"):
        next(function.parts((KEY,), records, state))
    assert (counted, state.exists) == ([], False)


def standing(end_ms: int | None, **arguments: Any) -> StatefulFunction:
    """The function where the partition of `KEY` takes no requests since 2,000."""
    standstills = (Standstill(0, 2_000, end_ms),)
    return StatefulFunction(
        ARGUMENTS._replace(notes=Notes(standstills=standstills), **arguments), lambda _: None
    )


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


def test_a_request_of_a_partition_that_stood_still_ends_the_task_before_any_is_decided() -> None:
    stored = a_member().state
    state = group_state(stored, 60_000)
    records = [(0, 1, 2_000, join("c2")), (0, 2, 2_001, join("c3"))]
    with pytest.raises(StoodStillError, match=r"\[STOOD_STILL\] partition 0 takes requests again"):
        list(standing(None)((KEY,), iter([frame(*records)]), state))
    assert state.get == (stored,)


def test_a_request_from_before_its_partition_stood_still_is_decided_as_when_that_is_over() -> None:
    decided = []
    for end_ms in (None, 58_000):
        guard = Guard(0, later_ms=3_500, earlier_ms=3_000, standstills=(Standstill(0, 2_000, end_ms),))
        function = standing(end_ms, guard=guard)
        state = group_state(a_member().state, 60_000, planned_ms=60_000)
        (rows,) = function.parts((KEY,), [(0, 1, 2_000, join("c2"))], state)
        assert json.loads(state.json())["timeoutTimestamp"] > 60_000
        rest = standing(58_000).parts((KEY,), [], group_state(state.get[0], 70_000, timed_out=True))
        decided.append([rows, *rest])
    assert decided[0] == decided[1]
    assert b"state_changed" in b"".join(value or b"" for _, _, value, *_ in decided[0][0])
