"""Measurements on their way into the table of lag: some of them, each once."""

from __future__ import annotations

import msgspec
import pytest
from delta.tables import DeltaTable as WrittenTable
from deltalake import DeltaTable

from group_coordinator.client.lag_log import MeasuredPartition, MeasuredTopic, Measurement
from group_coordinator.history.lag_writer import LagWriter
from group_coordinator.history.rows import time_of
from tests.history.filled import Tables

pytestmark = pytest.mark.spark


def partition(number: int, left: int, status: str, age_ms: int) -> MeasuredPartition:
    return MeasuredPartition(
        partition_index=number,
        committed_offset=100,
        log_end_offset=100 + left,
        age_ms=age_ms,
        error_ms=age_ms // 10,
        at_least=age_ms > 5_000,
        status=status,
        log_start_offset=100 + 20 * number if left else None,
    )


def measurement(group_id: str, at_s: int, left: int = 3) -> bytes:
    topics = [
        MeasuredTopic("orders", [partition(0, left, "ok", 4_000), partition(1, -2, "stalled", 200)]),
        MeasuredTopic("refunds", [partition(0, 7, "rewound", 6_000)]),
    ]
    return msgspec.json.encode(
        Measurement(
            group_id=group_id,
            measured_timestamp_ms=at_s * 1_000,
            interval_ms=15_000,
            records=left + 7,
            age_ms=6_000,
            error_ms=600,
            at_least=True,
            trend="clearing",
            clear_in_ms=90_000,
            topics=topics,
        )
    )


LATE = measurement("g", 0).replace(b'stamp_ms":0', b'stamp_ms":9000000000000000000')
"""Of a time that no calendar has."""


HOSTILE = [
    LATE,
    measurement("g\xff", 86_400).replace(b"\xc3\xbf", b"\xff"),
    measurement("g", 86_400).replace(b'"growing"', b'"\xff"').replace(b'"clearing"', b'"\xff"'),
    measurement("g", 86_400).replace(b"{", b'{"more":' + b"[" * 100_000 + b",", 1),
    *(
        measurement("g", 86_400).replace(b'"committed_offset":100', b'"committed_offset":%d' % offset)
        for offset in (-(1 << 63), (1 << 63) - 1, 1 << 63)
    ),
    *(
        measurement("g", 86_400).replace(b'"log_end_offset":', b'"log_end_offset":92233720368547758')
        for _ in "once"
    ),
    measurement("g", 86_400).replace(b'"age_ms":4000', b'"age_ms":9223372036854775807'),
    measurement("g", 86_400).replace(b'"clear_in_ms":90000', b'"clear_in_ms":9223372036854775807'),
]
"""What anybody may write."""


def test_what_anybody_may_write_ends_no_batch(tables: Tables) -> None:
    """A batch that fails runs again, for ever."""
    records = [(each,) for each in (*HOSTILE, measurement("good", 86_400))]
    written = WrittenTable.forPath(tables.spark, f"{tables.path}/lag")
    try:
        LagWriter(tables.spark, tables.path, 60_000).write(
            tables.spark.createDataFrame(records, "value BINARY")
        )
        assert written.toDF().where("group_id = 'good'").count() == 2
    finally:
        written.delete()


def test_of_each_minute_the_first_measurement_is_there_once(tables: Tables) -> None:
    writer = LagWriter(tables.spark, tables.path, 60_000)

    def write(*records: bytes) -> int:
        return writer.write(tables.spark.createDataFrame([(each,) for each in records], "value BINARY"))

    def rows() -> list[tuple[object, ...]]:
        names = ("group_id", "at", "topic", "records")
        found = DeltaTable(f"{tables.path}/lag").to_pyarrow_table().to_pylist()
        return sorted(tuple(row[name] for name in names) for row in found)

    midnight = 86_400
    first = [measurement("g", at_s) for at_s in (midnight + 75, midnight + 61, midnight + 30)]
    assert write(*first, b"no measurement", b"{}", LATE) == 4
    # The same batch runs again, or the checkpoint is lost and a part of it comes with later ones.
    assert write(*first) == 0
    assert write(first[0], measurement("g", midnight + 119), measurement("h", midnight + 61, 0)) == 2
    assert write() == 0
    assert write(measurement("g", midnight - 1), measurement("g", midnight + 120)) == 4
    assert rows() == [
        ("g", time_of((midnight + at_s) * 1_000), topic, records)
        for at_s in (-1, 30, 61, 120)
        for topic, records in (("orders", 3), ("refunds", 7))
    ] + [
        ("h", time_of((midnight + 61) * 1_000), topic, records)
        for topic, records in (("orders", 0), ("refunds", 7))
    ]
    (row,) = (
        row
        for row in DeltaTable(f"{tables.path}/lag").to_pyarrow_table().to_pylist()
        if (row["group_id"], row["topic"], row["records"]) == ("h", "orders", 0)
    )
    assert row == {
        "group_id": "h",
        "at": time_of((midnight + 61) * 1_000),
        # Four more measurements, some seconds, and the minute.
        "until": time_of((midnight + 61 + 130) * 1_000),
        "topic": "orders",
        "partitions": 2,
        "records": 0,
        "age_ms": 4_000,
        "error_ms": 400,
        "at_least": False,
        "status": "stalled",
        "trend": "clearing",
        "clear_in_ms": 90_000,
        "lost_records": 20,
        "day": time_of(midnight * 1_000).date(),
    }
