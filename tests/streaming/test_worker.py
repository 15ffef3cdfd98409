"""The short way beside pyspark's own: the same task, byte by byte as the JVM would read it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyspark
import pyspark.sql.types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.cloudpickle import dumps
from pyspark.serializers import CPickleSerializer, SpecialLengths, read_int, write_int
from pyspark.serializers import write_with_length as write
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, Row, StringType, StructType
from pyspark.util import PythonEvalType

from group_coordinator.checkpoints.ledger import Begun, Notes
from group_coordinator.checkpoints.timeouts import timeout_of
from group_coordinator.coordinator_state.clocks import Leeway, Span
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.step import StepResult
from group_coordinator.jobs.java import TESTED_VERSIONS
from group_coordinator.streaming import worker
from group_coordinator.streaming.function import INPUT_COLUMNS, StatefulFunction
from group_coordinator.streaming.group_function import OUTPUT_SCHEMA, STATE_SCHEMA
from tests.depth import cases
from tests.streaming.test_function import ARGUMENTS, join, rows_of, stepped

pysparks: Any = pyspark.worker

KEYS = [b"orders", None, b"\xff", "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n".encode(), b""]
COLUMNS = ["key", *INPUT_COLUMNS, "clock"]
TYPES = [pa.binary(), pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.timestamp("us", "UTC")]
STATE = pa.struct(
    [
        ("properties", pa.string()),
        ("keyRowAsUnsafe", pa.binary()),
        ("object", pa.binary()),
        ("startOffset", pa.int32()),
        ("numRows", pa.int32()),
        ("isLastChunk", pa.bool_()),
    ]
)


HEADER = StructType().add("key", StringType()).add("value", BinaryType())
TYPES_OF_DDL = {
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "INT": IntegerType(),
    "ARRAY<STRUCT<key STRING, value BINARY>>": ArrayType(HEADER),
}


def schema(ddl: str) -> StructType:
    """`StructType.fromDDL`, which needs a JVM."""
    made = StructType()
    # Not at the comma within a type.
    for field in re.split(r", (?![^<]*>)", ddl):
        name, type_ = field.split(maxsplit=1)
        made.add(name, TYPES_OF_DDL[type_])
    return made


class Chunk(NamedTuple):
    """Some of a group's rows, and what Spark says of its state beside them."""

    key: bytes | None
    rows: list[tuple[Any, ...]]
    stored: bytes | None = None
    is_last: bool = True
    watermark_ms: int = 0
    has_timed_out: bool = False
    planned_ms: int = 0


def rows(*client_ids: str, key: bytes | None = b"orders", begin: int = 0) -> list[tuple[Any, ...]]:
    request = {} if key is None else {"group_id": key.decode(errors="replace")}
    return [
        (key, 0, begin + number, 1_000 + begin + number, join(client_id, **request), None)
        for number, client_id in enumerate(client_ids)
    ]


def record_batch(chunks: list[Chunk]) -> pa.RecordBatch:
    """As the JVM writes it: all rows, and beside the first of them one struct for each chunk."""
    data: list[tuple[Any, ...]] = []
    infos: list[dict[str, Any] | None] = []
    for chunk in chunks:
        properties = {
            "batchProcessingTimeMs": chunk.planned_ms,
            "eventTimeWatermarkMs": chunk.watermark_ms,
            "timeoutConf": GroupStateTimeout.EventTimeTimeout,
            "hasTimedOut": chunk.has_timed_out,
            "watermarkPresent": True,
            "defined": chunk.stored is not None,
            "updated": False,
            "removed": False,
            "timeoutTimestamp": 11_000 if chunk.has_timed_out else GroupState.NO_TIMESTAMP,
        }
        infos.append(
            {
                "properties": json.dumps(properties),
                "keyRowAsUnsafe": b"unsafe " + (chunk.key or b"null"),
                "object": None if chunk.stored is None else CPickleSerializer().dumps(Row(chunk.stored)),
                "startOffset": len(data),
                "numRows": len(chunk.rows),
                "isLastChunk": chunk.is_last,
            }
        )
        data += chunk.rows
    infos += [None] * (len(data) - len(infos))
    columns = [pa.array([row[number] for row in data], type_) for number, type_ in enumerate(TYPES)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(infos, STATE)], [*COLUMNS, "!__state__!"])


def conf(**values: str) -> bytes:
    file = io.BytesIO()
    write_int(len(values), file)
    for name, value in values.items():
        for text in (name, value):
            write(text.encode(), file)
    return file.getvalue()


def task(function: Any, batches: Iterable[list[Chunk]], most: int) -> tuple[bytes, list[pa.RecordBatch]]:
    """What pyspark's worker does between its greeting and its farewell; with what it writes."""
    return begun(function, batches, most)()


def begun(
    function: Any, batches: Iterable[list[Chunk]], most: int
) -> Callable[[], tuple[bytes, list[pa.RecordBatch]]]:
    """A task whose function is read, and whose data are still to be."""
    infile = io.BytesIO()
    # How many functions, and the arguments of the one: how many offsets of columns follow, how many of them
    # are the key's, and the offsets; a flag after each says that it has no name.
    values = range(len(COLUMNS))
    offsets = [2 + len(values), 1, 0, *values]
    write_int(1, infile)
    write_int(len(offsets), infile)
    for offset in offsets:
        write_int(offset, infile)
        infile.write(bytes(1))
    # How many functions it is made of, and the id of its result.
    write_int(1, infile)
    write(dumps((function, schema(OUTPUT_SCHEMA))), infile)
    infile.write(bytes(8))
    with_schema = [record_batch(chunks) for chunks in batches]
    if with_schema:
        with pa.ipc.new_stream(infile, with_schema[0].schema) as writer:
            for batch in with_schema:
                writer.write_batch(batch)
    infile.seek(0)

    runner = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(most), "spark.sql.session.timeZone": "UTC"}
    func, _, deserializer, serializer = pysparks.read_udfs(
        CPickleSerializer(),
        infile,
        PythonEvalType.SQL_GROUPED_MAP_PANDAS_UDF_WITH_STATE,
        pysparks.RunnerConf(io.BytesIO(conf(**runner))),
        pysparks.EvalConf(io.BytesIO(conf(state_value_schema=schema(STATE_SCHEMA).json()))),
    )

    def ended() -> tuple[bytes, list[pa.RecordBatch]]:
        outfile = io.BytesIO()
        serializer.dump_stream(func(0, deserializer.load_stream(infile)), outfile)
        written = outfile.getvalue()
        if not written:
            return written, []
        outfile.seek(0)
        assert read_int(outfile) == SpecialLengths.START_ARROW_STREAM
        return written, list(pa.ipc.open_stream(outfile))

    return ended


REPLACED = [
    (pysparks, "read_udfs"),
    (pysparks, "wrap_grouped_map_pandas_udf_with_state"),
    (pyspark.sql.types, "_parse_datatype_json_string"),
]


@contextmanager
def installed() -> Iterator[None]:
    """While the context is open, pyspark's worker takes the short way."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in REPLACED:
            # As it is, so that it is put back.
            patch.setattr(module, name, getattr(module, name))
        worker.install()
        yield


def both_ways(function: Any, *batches: list[Chunk], most: int = 10_000) -> list[pa.RecordBatch]:
    """What comes of the task, after a look that it is the same, byte for byte."""
    stock_bytes, stock = task(function, batches, most)
    with installed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "_BATCH_ROWS", most or 10_000)
        short_bytes, short = task(function, batches, most)
    assert stock == short
    assert stock_bytes == short_bytes
    return short


def nothing(_result: StepResult) -> None:
    """Count nothing."""


FUNCTION = StatefulFunction(ARGUMENTS, nothing)


def stored(*client_ids: str, key: bytes | None = b"orders") -> bytes:
    state = stepped(key, None, 0, *(row[1:5] for row in rows(*client_ids, key=key))).state
    assert state is not None
    return state


def read(batch: pa.RecordBatch) -> tuple[list[Any], list[Any]]:
    """Rows and states as the JVM takes them from a batch."""
    counts, data, states = (column.to_pylist() for column in batch.columns)
    (count,) = {tuple(each.values()) for each in counts}
    for row in data[: count[0]]:
        # Of Arrow's structs `to_pylist` makes dictionaries.
        row["headers"] = row["headers"] and [tuple(header.values()) for header in row["headers"]]
    return [tuple(row.values()) for row in data[: count[0]]], states[: count[1]]


def unpickled(state: dict[str, Any]) -> Any:
    return CPickleSerializer().loads(state["object"])


# -- what comes of it ----------------------------------------------------------------------------------


def test_answers_and_state_of_some_groups() -> None:
    chunks = [Chunk(key, rows("c1", "c2", key=key)) for key in KEYS]
    (batch,) = both_ways(FUNCTION, chunks)
    expected = [stepped(chunk.key, None, 0, *(row[1:5] for row in chunk.rows)) for chunk in chunks]

    answers, states = read(batch)
    assert answers == [row for each in expected for row in rows_of(each)]
    assert [unpickled(state) for state in states if state["object"]] == [
        (each.state,) for each in expected if each.state
    ]
    assert [json.loads(state["properties"])["timeoutTimestamp"] for state in states] == [
        GroupState.NO_TIMESTAMP if each.deadline_ms is None else timeout_of(each.deadline_ms)
        for each in expected
    ]
    assert [state["keyRowAsUnsafe"] for state in states] == [b"unsafe " + (key or b"null") for key in KEYS]


def test_rows_of_a_group_that_do_not_fit_into_one_batch() -> None:
    all_rows = rows("c1", "c2", "c3", "c4", "c5")
    parts = [Chunk(b"orders", part, is_last=part is all_rows[4:]) for part in (all_rows[:2], all_rows[2:4])]
    last = Chunk(b"orders", all_rows[4:])
    (batch,) = both_ways(
        FUNCTION,
        [Chunk(b"first", rows("a", key=b"first")), parts[0]],
        [parts[1]],
        [last, Chunk(b"next", rows("b", key=b"next"))],
    )

    answers, states = read(batch)
    assert len(states) == 3
    expected = stepped(b"orders", None, 0, *(row[1:5] for row in all_rows))
    assert [row for row in answers if b'"orders"' in row[2]] == rows_of(expected)


def test_groups_that_have_timed_out_are_given_no_rows() -> None:
    expired = Chunk(
        b"orders",
        [(b"orders", None, None, None, None, None)],
        stored("c1"),
        watermark_ms=60_000,
        has_timed_out=True,
    )
    late = rows("c1", key=b"other", begin=70_000)
    (batch,) = both_ways(FUNCTION, [expired, Chunk(b"other", late, watermark_ms=60_000)])

    answers, (timed_out, _) = read(batch)
    removed = [json.loads(row[2]) for row in answers if b"member_removed" in row[2]]
    assert [(each["group_id"], each["reason"]) for each in removed] == [("orders", "session_expired")]
    assert timed_out["oldTimeoutTimestamp"] == 11_000


@pytest.mark.parametrize(("watermark_ms", "is_forgotten"), [(62_000, False), (62_001, True)])
def test_a_group_that_is_gone_leaves_no_state(watermark_ms: int, *, is_forgotten: bool) -> None:
    """After a minute, in which requests can be late for it."""
    kept = stored("c1")
    member_id = json.loads(read(both_ways(FUNCTION, [Chunk(b"orders", rows("c1"))])[0])[0][0][2])["member_id"]
    leave = {"api": "leave_group", "request_id": "r", "client_id": "c1", "group_id": "orders"}
    gone = [
        (b"orders", 0, 9, 2_000, json.dumps(leave | {"members": [{"member_id": member_id}]}).encode(), None),
        (b"orders", 0, 10, 2_001, json.dumps(leave | {"api": "delete_group"}).encode(), None),
    ]
    (batch,) = both_ways(FUNCTION, [Chunk(b"orders", gone, kept, watermark_ms=watermark_ms)])

    _, (state,) = read(batch)
    assert (state["object"] is None) is is_forgotten
    assert json.loads(state["properties"])["removed"] is is_forgotten


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_batches_end_where_pysparks_do(most: int) -> None:
    keys = [f"g{number}".encode() for number in range(9)]
    batches = both_ways(FUNCTION, [Chunk(key, rows("c1", key=key)) for key in keys], most=most)

    assert len(batches) > 1
    assert sum(len(read(batch)[1]) for batch in batches) == 9


def test_a_task_without_data() -> None:
    assert both_ways(FUNCTION, []) == []


def test_no_answers_but_a_state() -> None:
    member = stored("c1")
    idle = Chunk(b"orders", [(b"orders", None, None, None, None, None)], member, True, 2_000, True)
    (batch,) = both_ways(FUNCTION, [idle])

    answers, (state,) = read(batch)
    assert answers == []
    assert unpickled(state) == (stepped(b"orders", member, 2_000).state,)


def test_requests_whose_times_cannot_be_right_are_corrected() -> None:
    """By the plan of their batch, of which Spark tells the function."""
    begun = Begun(batch=0, ahead_ms=50, until_ms=LATEST_MS)
    function = StatefulFunction(
        ARGUMENTS._replace(notes=Notes(begun=(begun,)), leeway=Leeway(3_500, 3_000)), nothing
    )
    planned = rows("c1", "c2")
    chunks = [Chunk(b"orders", planned, watermark_ms=9_000, planned_ms=10_000)]
    (batch,) = both_ways(function, chunks)
    span = Span(watermark_ms=9_000, earliest_ms=6_000, latest_ms=13_550, planned_ms=10_050)
    expected = stepped(b"orders", None, 9_000, *(row[1:5] for row in planned), span=span)

    answers, (state,) = read(batch)
    assert answers == rows_of(expected)
    assert unpickled(state) == (expected.state,)
    corrected = [json.loads(row[2]) for row in answers if b"clock_corrected" in row[2]]
    assert [(each["at_ms"], each["shift_ms"]) for each in corrected] == [(10_050, 9_050)]


# -- any tasks -------------------------------------------------------------------------------------------

requests = st.sampled_from(
    [join("c1"), join("c2"), join("c2", session_timeout_ms=1), b"no JSON", b"", b"\xff", None]
)


@st.composite
def tasks(draw: st.DrawFn) -> list[list[Chunk]]:
    """Groups with and without a state, whose rows are cut into batches anywhere."""
    chunks: list[Chunk] = []
    for number in range(draw(st.integers(0, 6))):
        key = draw(st.sampled_from([None, b"", b"\xff", f"g{number}".encode()]))
        state = (
            stored("c1", key=key)
            if key is not None and key.startswith(b"g") and draw(st.booleans())
            else None
        )
        watermark_ms = draw(st.sampled_from([0, 5_000, 90_000]))
        if state is not None and draw(st.booleans()):
            chunks.append(Chunk(key, [(key, *[None] * 5)], state, True, watermark_ms, True))
            continue
        values = draw(st.lists(requests, min_size=1, max_size=5))
        all_rows = [
            (key, draw(st.integers(0, 1)), 100 + offset, watermark_ms + 2_000 + offset, value, None)
            for offset, value in enumerate(values)
        ]
        cuts = sorted({0, len(all_rows), *draw(st.lists(st.integers(1, len(all_rows)), max_size=2))})
        chunks += [
            Chunk(key, all_rows[begin:end], state, end == len(all_rows), watermark_ms)
            for begin, end in pairwise(cuts)
        ]
    cuts = [0, *sorted(draw(st.lists(st.integers(0, len(chunks)), max_size=3))), len(chunks)]
    return [chunks[begin:end] for begin, end in pairwise(cuts)]


@pytest.mark.drawn
def test_batch_ends_when_states_have_filled_it(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [Chunk(key, [], stored("c1", key=key), has_timed_out=True) for key in (b"a", b"b", b"c")]
    chunks = [chunk._replace(rows=[(chunk.key, *[None] * 5)], watermark_ms=20_000_000) for chunk in chunks]
    monkeypatch.setattr(worker, "_BATCH_BYTES", 10)
    with installed():
        _, batches = task(FUNCTION, [chunks], 10_000)
    assert [len(states) for _, states in map(read, batches) if states] == [1, 1, 1]


@given(batches=tasks(), most=st.sampled_from([0, 1, 2, 5, 10_000]))
@settings(max_examples=cases(60, deep=600))
def test_any_task_is_done_alike(batches: list[list[Chunk]], most: int) -> None:
    both_ways(FUNCTION, *batches, most=most)


# -- guards ----------------------------------------------------------------------------------------------


class _Failing(StatefulFunction):
    def parts(self, *_: Any) -> Any:
        raise ZeroDivisionError("as bad as can be")


def test_a_failure_is_told_before_anything_is_written() -> None:
    for way in (nullcontext, installed):
        with way(), pytest.raises(ZeroDivisionError, match="as bad as can be"):
            task(_Failing(ARGUMENTS, nothing), [[Chunk(b"orders", rows("c1"))]], 10_000)


def other(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    for frame in frames:
        state.update((frame["value"][0],))
        yield pd.DataFrame(
            [("t", key[0], frame["value"][0], None, None)], columns=list(schema(OUTPUT_SCHEMA).names)
        )


def test_each_task_has_a_way_of_its_own() -> None:
    chunks = [Chunk(b"orders", rows("c1"))]
    expected = [task(function, [chunks], 10_000) for function in (FUNCTION, other)]
    with installed():
        ours, others = begun(FUNCTION, [chunks], 10_000), begun(other, [chunks], 10_000)
        assert [ours(), others()] == expected


def test_functions_that_are_not_the_coordinators_are_called_pysparks_way() -> None:
    (batch,) = both_ways(other, [Chunk(b"orders", rows("c1"))])
    # And the coordinator's again after it, in the same process.
    both_ways(FUNCTION, [Chunk(b"orders", rows("c1"))])

    assert read(batch)[0] == [("t", b"orders", join("c1"), None, None)]


def test_to_install_again_with_every_task_adds_nothing() -> None:
    """A worker does so; what were put around what is there already would grow with each task."""
    with installed():
        once = [getattr(module, name) for module, name in REPLACED]
        worker.install()
        again = [getattr(module, name) for module, name in REPLACED]

    assert all(one is other for one, other in zip(once, again, strict=True))


def test_the_version_that_is_installed_is_one_that_was_tested() -> None:
    assert pyspark.__version__ in TESTED_VERSIONS
