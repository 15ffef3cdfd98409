"""Measurements of lag, as they are read. tests/lag/test_measure_lag.py reads the topic itself."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from kafka.structs import TopicPartition

from group_coordinator.client.lag_log import MeasuredPartition, MeasuredTopic, Measurement, read_measurement

RECORD = b"""{"group_id":"g","measured_timestamp_ms":1000,"interval_ms":15000,"records":3,"age_ms":5000,
"error_ms":7,"at_least":false,"trend":"clearing","clear_in_ms":60000,"of_a_later_version":1,"topics":[
{"name":"orders","partitions":[{"partition_index":2,"committed_offset":4,"log_end_offset":7,"age_ms":5000,
"error_ms":7,"at_least":false,"status":"ok"}]}]}"""

BAD = [
    RECORD.replace(b'"g"', b"1"),
    # No calendar has such a time.
    RECORD.replace(b'stamp_ms":1000', b'stamp_ms":9000000000000000'),
    RECORD.replace(b'"age_ms":5000', b'"age_ms":-5000'),
]


def record(value: bytes | None) -> SimpleNamespace:
    return SimpleNamespace(topic="coordinator.lag", partition=1, offset=7, key=b"g", value=value)


def test_a_measurement_is_read_and_is_fresh_until_some_are_missing() -> None:
    partition = MeasuredPartition(
        partition_index=2,
        committed_offset=4,
        log_end_offset=7,
        age_ms=5_000,
        error_ms=7,
        at_least=False,
        status="ok",
    )
    measurement = Measurement(
        group_id="g",
        measured_timestamp_ms=1_000,
        interval_ms=15_000,
        records=3,
        age_ms=5_000,
        error_ms=7,
        at_least=False,
        trend="clearing",
        clear_in_ms=60_000,
        topics=[MeasuredTopic("orders", [partition])],
    )
    assert read_measurement(record(RECORD)) == measurement
    assert measurement.partitions == {TopicPartition("orders", 2): partition}
    assert partition.records == 3
    assert [measurement.is_fresh(at_ms) for at_ms in (0, 1_000, 71_000, 71_001)] == [True, True, True, False]


@pytest.mark.parametrize("value", [None, b"", b"{}", *BAD, b"[" * 100_000])
@pytest.mark.usefixtures("tells_all_that_is_skipped")
def test_what_is_no_measurement_is_skipped(value: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert read_measurement(record(value)) is None
    assert caplog.messages[0].startswith(
        "coordinator.lag, partition 1, offset 7 is no measurement and is skipped: "
    )
