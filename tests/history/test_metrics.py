"""What is told of the history: how far it is, and what was written."""

from __future__ import annotations

import json
import math
import re
import time
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql.streaming.listener import SourceProgress

from group_coordinator.history.metrics import HistoryMetrics
from group_coordinator.history.tables import ALL_TABLES
from group_coordinator.history.writer import Written
from tests.streaming.registry import samples

NAME = "the-query-under-test"
AT = "2026-01-31T14:05:00.500Z"
AT_S = 1769868300.5


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> HistoryMetrics:
    return HistoryMetrics(registry, NAME)


@pytest.fixture
def run_id(metrics: HistoryMetrics) -> Any:
    run_id = uuid4()
    started: Any = SimpleNamespace(name=NAME, runId=run_id)
    metrics.onQueryStarted(started)
    return run_id


def progress(run_id: Any, end: object, latest: object) -> Any:
    """As Spark tells it of a batch; offsets as pyspark has them."""
    source = {"description": "KafkaV2", "numInputRows": 1, "inputRowsPerSecond": 1.0}
    offsets = {"startOffset": None, "endOffset": end, "latestOffset": latest}
    told = SourceProgress.fromJson(source | offsets | {"processedRowsPerSecond": 1.0, "metrics": {}})
    return SimpleNamespace(progress=SimpleNamespace(runId=run_id, timestamp=AT, sources=[told]))


def value(registry: CollectorRegistry, name: str) -> float:
    return samples(registry)[f"group_coordinator_history_{name}",]


def test_before_the_first_batch(registry: CollectorRegistry, metrics: HistoryMetrics) -> None:
    found = samples(registry)
    unknown = {name for (name, *_), it in found.items() if math.isnan(it)}

    assert unknown == {
        "group_coordinator_history_complete_timestamp_seconds",
        "group_coordinator_history_last_commit_timestamp_seconds",
        "group_coordinator_history_newest_event_timestamp_seconds",
        "group_coordinator_history_unwritten_events",
    }
    # To Prometheus the first sample of a series is no increase.
    assert {name: it for name, it in found.items() if name[0] not in unknown} == {
        ("group_coordinator_history_partitions_removed_total",): 0,
        **{("group_coordinator_history_rows_merged_total", table.name): 0 for table in ALL_TABLES},
    }


def test_a_batch_that_reads_all_there_is(
    registry: CollectorRegistry, metrics: HistoryMetrics, run_id: Any
) -> None:
    before = time.time()
    metrics.onQueryProgress(progress(run_id, {"e": {"0": 7, "1": 3}}, {"e": {"0": 7, "1": 3}}))

    assert value(registry, "unwritten_events") == 0
    assert value(registry, "complete_timestamp_seconds") == AT_S
    assert before <= value(registry, "last_commit_timestamp_seconds") <= time.time()


def test_a_batch_that_leaves_some(registry: CollectorRegistry, metrics: HistoryMetrics, run_id: Any) -> None:
    metrics.onQueryProgress(progress(run_id, {"e": {"0": 7, "1": 3}}, {"e": {"0": 17, "1": 8}}))

    assert value(registry, "unwritten_events") == 15
    assert math.isnan(value(registry, "complete_timestamp_seconds"))


def test_a_batch_that_runs_again_does_not_know_what_there_is(
    registry: CollectorRegistry, metrics: HistoryMetrics, run_id: Any
) -> None:
    again = progress(run_id, {"e": {"0": 7}}, None)
    metrics.onQueryProgress(again)
    # What comes from the JVM is another text.
    again.progress.sources[0]._latestOffset = str(None)
    metrics.onQueryProgress(again)

    assert value(registry, "last_commit_timestamp_seconds") > 0
    assert math.isnan(value(registry, "unwritten_events"))
    assert math.isnan(value(registry, "complete_timestamp_seconds"))


def test_nothing_to_write_is_complete_too(
    registry: CollectorRegistry, metrics: HistoryMetrics, run_id: Any
) -> None:
    idle: Any = SimpleNamespace(runId=run_id, timestamp=AT)
    metrics.onQueryIdle(idle)

    assert value(registry, "complete_timestamp_seconds") == AT_S
    assert value(registry, "unwritten_events") == 0
    assert math.isnan(value(registry, "last_commit_timestamp_seconds"))


def test_other_queries_of_the_session_do_not_count(
    registry: CollectorRegistry, metrics: HistoryMetrics, run_id: Any
) -> None:
    other = uuid4()
    started, idle = SimpleNamespace(name="other", runId=other), SimpleNamespace(runId=other, timestamp=AT)
    before = json.dumps(sorted(samples(registry).items()))
    for tell, event in (
        (metrics.onQueryStarted, started),
        (metrics.onQueryProgress, progress(other, {"e": {"0": 1}}, {"e": {"0": 1}})),
        (metrics.onQueryIdle, idle),
    ):
        tell(event)

    assert json.dumps(sorted(samples(registry).items())) == before


def test_what_was_written_and_removed(registry: CollectorRegistry, metrics: HistoryMetrics) -> None:
    metrics.wrote(Written({"events": 3, "joins": 2}, 2_500))
    # One that was told before.
    metrics.wrote(Written({}, None))
    metrics.wrote(Written({"events": 1}, 4_000))
    metrics.removed(2)
    metrics.removed(0)

    rows = {name[1]: it for name, it in samples(registry).items() if name[0].endswith("merged_total") and it}
    assert rows == {"events": 4, "joins": 2}
    assert value(registry, "newest_event_timestamp_seconds") == 4
    assert value(registry, "partitions_removed_total") == 2


def test_names_are_as_prometheus_wants_them(registry: CollectorRegistry, metrics: HistoryMetrics) -> None:
    families = list(registry.collect())

    assert len(families) == 6
    for family in families:
        assert re.fullmatch(r"group_coordinator_history(_[a-z]+)+", family.name)
        assert family.documentation.endswith(".")
        assert family.type == ("counter" if re.search("_(merged|removed)$", family.name) else "gauge")
