"""The records of the brokers' log by group, as the query gives them to the function."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from group_coordinator.brokers_log.records import Unreadable, read_record
from group_coordinator.observe.function import INPUT_COLUMNS
from group_coordinator.observe.query import by_group
from tests.brokers_log.kafka import recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEYS = [data for name, data in recorded().items() if name.startswith("key_")]
DAMAGED = [None, b"", b"\0", b"\0\2", b"\0\2\0\3ab", b"\0\2\xff\xff"]


def found(spark: SparkSession, keys: list[bytes | None], *, with_commits: bool) -> list[dict[str, Any]]:
    at = datetime(2026, 1, 31, 14, 5, tzinfo=UTC)
    records = [(key, b"v", 3, number, at) for number, key in enumerate(keys)]
    schema = "key binary, value binary, partition int, offset long, timestamp timestamp"
    rows = by_group(spark.createDataFrame(records, schema), with_commits=with_commits).collect()
    return [row.asDict() for row in rows]


def test_the_group_is_told_by_the_key_of_any_record(spark: SparkSession) -> None:
    rows = found(spark, [*KEYS], with_commits=True)
    assert [row["record_key"] for row in rows] == KEYS
    assert {bytes(row["key"]).decode() for row in rows} == {"größe"}
    assert list(rows[0]) == ["key", *INPUT_COLUMNS]
    assert (rows[0]["partition"], rows[0]["timestamp_ms"]) == (3, 1_769_868_300_000)


def test_commits_are_left_out_if_somebody_wants_that(spark: SparkSession) -> None:
    rows = found(spark, [*KEYS], with_commits=False)
    assert [row["record_key"] for row in rows] == [key for key in KEYS if key[:2] > b"\0\1"]
    assert len(rows) == len(KEYS) - 2, "commits are of kinds 0 and 1"


def test_keys_that_cannot_be_read_end_nothing(spark: SparkSession) -> None:
    rows = found(spark, [*DAMAGED], with_commits=True)
    assert [row["record_key"] for row in rows] == DAMAGED
    assert all(isinstance(read_record(key, b"v"), Unreadable) for key in DAMAGED)
