"""What is written to the topic of lag, and what comes of it while there is no Kafka."""

from __future__ import annotations

import logging

import msgspec
import pytest
from kafka.structs import TopicPartition

from group_coordinator.client.lag_log import STATUSES
from group_coordinator.lag.book import Book
from group_coordinator.lag.course import Status
from group_coordinator.lag.settings import LagSettings
from group_coordinator.lag.topic import LagTopic, measurements_of
from tests.patience import wait_for

ORDERS, REFUNDS = TopicPartition("orders", 0), TopicPartition("refunds", 1)


def test_a_measurement_as_the_contract_has_it() -> None:
    book = Book(lambda _: True, 10)
    book.committed("billing", ORDERS, 0, 4)
    book.committed("billing", REFUNDS, 0, 5)
    book.committed("units", TopicPartition("eu", 0), 0, 5)
    book.measure(0, {ORDERS: 4, REFUNDS: 9})
    (measurement,) = measurements_of(book.measure(10_000, {ORDERS: 6, REFUNDS: 9}), 10_000, 15_000)
    assert msgspec.to_builtins(measurement) == {
        "group_id": "billing",
        "measured_timestamp_ms": 10_000,
        "interval_ms": 15_000,
        "records": 6,
        "age_ms": 10_000,
        "error_ms": 0,
        "at_least": True,
        "trend": "steady",
        "clear_in_ms": None,
        "lost_records": 0,
        "lost_in_ms": None,
        "topics": [
            {
                "name": "orders",
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": 4,
                        "log_end_offset": 6,
                        "age_ms": 5_000,
                        "error_ms": 5_000,
                        "at_least": False,
                        "status": "ok",
                        "age_by": "ends",
                        "log_start_offset": None,
                        "lost_in_ms": None,
                    }
                ],
            },
            {
                "name": "refunds",
                "partitions": [
                    {
                        "partition_index": 1,
                        "committed_offset": 5,
                        "log_end_offset": 9,
                        "age_ms": 10_000,
                        "error_ms": 0,
                        "at_least": True,
                        "status": "ok",
                        "age_by": "ends",
                        "log_start_offset": None,
                        "lost_in_ms": None,
                    }
                ],
            },
        ],
    }


def test_the_statuses_have_the_order_that_readers_know() -> None:
    assert tuple(each.value for each in Status) == STATUSES


def test_a_broker_that_is_away_stops_nothing_and_what_is_lost_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    config = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 300}
    counts: list[tuple[int, int]] = []
    book = Book(lambda _: True, 10)
    book.committed("billing", ORDERS, 0, 4)
    measurements = measurements_of(book.measure(0, {ORDERS: 4}), 0, 15_000)
    with LagTopic(LagSettings(), config, lambda *it: counts.append(it)) as topic:
        for _ in range(5):
            topic.put(measurements)
        wait_for(lambda: sum(lost for _, lost in counts) == 5)
        topic.put(measurements)
        wait_for(lambda: sum(lost for _, lost in counts) == 6)
    assert not any(written for written, _ in counts)
    (line,) = [it.getMessage() for it in caplog.records if it.name == "group_coordinator.lag.topic"]
    assert line.startswith("lag is not written to topic coordinator.lag: ")


def test_without_a_name_there_is_no_topic() -> None:
    counts: list[tuple[int, int]] = []
    with LagTopic(LagSettings(topics_lag=""), {}, lambda *it: counts.append(it)) as topic:
        topic.put([])
    assert counts == []
