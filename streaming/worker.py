"""Spark's Python worker, with a shorter way from Arrow to the stateful function and back.

For each group of a batch, pyspark's own way makes pandas objects of the rows, of the result and of the state.
That costs five times what the coordinator does with them. Here a batch's Arrow columns become Python lists
once, and each group gets its slice of them. The results of all groups are made into Arrow once:

    load_stream:  record batch ─► columns as lists ─► (slice of them, GroupState) for each group
    dump_stream:  rows and states of many groups, as lists ─► record batch

The wire, and so all that the JVM sees, is the same. It leans on pyspark's internals, so it is only used with
the versions that it was tested with; with others, for functions that are not this project's, and with
`spark.python.daemon.module = pyspark.daemon`, the way is pyspark's own.
"""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyspark.sql.types
import pyspark.worker
from pyspark.serializers import pickle_protocol
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.state import GroupState
from pyspark.util import PythonEvalType

from group_coordinator.streaming.group_function import GroupFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql.types import StructType

    from group_coordinator.streaming.group_function import Row

_BATCH_BYTES = 16_000_000
_BATCH_ROWS = 10_000

# Neither typed nor meant for others (see `TESTED_VERSIONS`).
_worker: Any = pyspark.worker
_types: Any = pyspark.sql.types
_pysparks_read_udfs = _worker.read_udfs
_pysparks_wrap = _worker.wrap_grouped_map_pandas_udf_with_state
# Spark pickles a state with its schema, as JSON.
_parse_once = cache(_types._parse_datatype_json_string)  # noqa: SLF001


class _Column(NamedTuple):
    """A column of one chunk of a group's rows."""

    name: str
    values: list[Any]


class _Decided(NamedTuple):
    """What the function has made of one group."""

    parts: Iterator[list[Row]]
    """To be taken before the next group is."""
    state: GroupState
    schema: StructType


class _Serializer:
    """Reads and writes a task of this project's function as `pysparks` serializer would.

    `columns`: those of a record that the function reads.
    """

    def __init__(self, pysparks: Any, columns: tuple[str, ...]) -> None:
        self._pysparks = pysparks
        self._read = frozenset({"key", *columns})

    def load_stream(self, stream: IO[bytes]) -> Iterator[tuple[Any, GroupState]]:
        """Give each group's chunks, to be read before the next group's, and its state."""
        return ((chunks, state) for state, chunks in groupby(self._chunks(stream), itemgetter(1)))

    def dump_stream(self, iterator: Iterable[_Decided], stream: IO[bytes]) -> None:
        """Write the rows and states of all groups."""
        ArrowStreamSerializer(write_start_stream=True).dump_stream(self._batches(iterator), stream)

    # -- in --------------------------------------------------------------------------------------

    def _chunks(self, stream: IO[bytes]) -> Iterator[tuple[list[_Column], GroupState]]:
        """A group's rows may be in several chunks, one after the other, which share one state object."""
        unfinished: GroupState | None = None
        for batch in pa.ipc.open_stream(stream):
            names = batch.schema.names[:-1]
            columns = [
                _Column(name, column.to_pylist() if name in self._read else [None] * batch.num_rows)
                for name, column in zip(names, batch.columns, strict=False)
            ]
            infos = batch.columns[-1].to_pylist()
            # Large records are in memory once, and none while the next ones are read.
            del batch
            for info in infos:
                if info is None:
                    # All groups have been told of; there are more rows than groups.
                    break
                state = unfinished or self._state(info)
                unfinished = None if info["isLastChunk"] else state
                start = info["startOffset"]
                end = start + info["numRows"]
                yield [_Column(name, values[start:end]) for name, values in columns], state
            del columns

    def _state(self, info: dict[str, Any]) -> GroupState:
        value = info["object"]
        properties = msgspec.json.decode(info["properties"])
        properties["optionalValue"] = self._pysparks.pickleSer.loads(value) if value else None
        return GroupState(
            keyAsUnsafe=info["keyRowAsUnsafe"], valueSchema=self._pysparks.state_object_schema, **properties
        )

    # -- out -------------------------------------------------------------------------------------

    def _batches(self, groups: Iterable[_Decided]) -> Iterator[pa.RecordBatch]:
        """A batch ends after the rows or the state with which it has more than enough.

        Its last group's state may be in the next one. A column of 2 GiB would end the query.
        """
        rows: list[Row] = []
        states: list[GroupState] = []
        schema = None
        size = 0
        for decided in groups:
            schema = decided.schema
            for part in decided.parts:
                rows += part
                size += sum([len(value or b"") for _, _, value, _, _ in part])
                if part and (len(rows) > _BATCH_ROWS or size > _BATCH_BYTES):
                    yield self._batch(rows, states, schema)
                    rows, states, size = [], [], 0
            states.append(decided.state)
            if decided.state.exists:
                size += len(decided.state.get[0])
            if size > _BATCH_BYTES:
                yield self._batch(rows, states, schema)
                rows, states, size = [], [], 0
        if schema is not None and (rows or states):
            yield self._batch(rows, states, schema)

    def _batch(self, rows: list[Row], states: list[GroupState], schema: StructType) -> pa.RecordBatch:
        """Three columns of the same length: how many rows and states there are, the rows, and the states."""
        length = max(1, len(rows), len(states))
        infos = [
            (
                state.json(),
                state._keyAsUnsafe,  # noqa: SLF001 - as pyspark's
                # As pyspark's serializer does, which is made for what plain pickle cannot write.
                pickle.dumps(self._pysparks.state_object_schema.toInternal(state._value), pickle_protocol)  # noqa: SLF001
                if state.exists
                else None,
                state.oldTimeoutTimestamp,
            )
            for state in states
        ]
        columns = [
            _structs(self._pysparks.result_count_df_type, [(len(rows), len(states))] * length, length),
            _structs(schema, rows, length),
            _structs(self._pysparks.result_state_df_type, infos, length),
        ]
        return pa.RecordBatch.from_arrays(columns, ["_0", "_1", "_2"])


def _structs(schema: StructType, rows: list[Any], length: int) -> pa.StructArray:
    """The rows, and then rows of nulls."""
    type_ = to_arrow_type(schema, timezone="UTC")
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    missing = (None,) * (length - len(rows))
    arrays = [pa.array(values + missing, field.type) for values, field in zip(columns, type_, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(type_))


@dataclass(frozen=True)
class _Decide:
    """What pyspark calls for each group: with key columns, chunks of the other columns, and the state."""

    function: GroupFunction
    schema: StructType

    def __call__(self, keys: list[_Column], chunks: Iterable[list[_Column]], state: GroupState) -> _Decided:
        # Of a group that has timed out there is one row, of nulls.
        records = () if state.hasTimedOut else chain.from_iterable(map(self._records, chunks))
        parts = self.function.parts(tuple(values[0] for _, values in keys), records, state)
        return _Decided(parts, state, self.schema)

    def _records(self, columns: list[_Column]) -> Iterator[tuple[Any, ...]]:
        by_name = dict(columns)
        return zip(*(by_name[name] for name in self.function.INPUT_COLUMNS), strict=True)


def _wrap(function: Callable[..., Any], schema: StructType, runner_conf: Any) -> Callable[..., Any]:
    """pyspark's, but `_Decide` if the function is this project's."""
    # pyspark has wrapped it before, in a function that gives no way to what is in it.
    ours = inspect.getclosurevars(function).nonlocals.get("f")
    if isinstance(ours, GroupFunction):
        return _Decide(ours, schema)
    return _pysparks_wrap(function, schema, runner_conf)  # type: ignore[no-any-return]


def _read_udfs(pickler: Any, infile: IO[bytes], eval_type: int, *conf: Any) -> tuple[Any, ...]:
    """pyspark's: what does a task, its profiler, and what reads and writes, for `_Decide` a `_Serializer`."""
    function, profiler, reading, writing = _pysparks_read_udfs(pickler, infile, eval_type, *conf)
    if eval_type == PythonEvalType.SQL_GROUPED_MAP_PANDAS_UDF_WITH_STATE:
        mapper = inspect.getclosurevars(function).nonlocals["mapper"]
        decide = inspect.getclosurevars(mapper).nonlocals["f"]
        if isinstance(decide, _Decide):
            reading = writing = _Serializer(writing, decide.function.INPUT_COLUMNS)
    return function, profiler, reading, writing


def install() -> None:
    """Have pyspark's worker, in this process, take the short way; once more changes nothing."""
    _types._parse_datatype_json_string = _parse_once  # noqa: SLF001
    _worker.read_udfs = _read_udfs
    _worker.wrap_grouped_map_pandas_udf_with_state = _wrap
