from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from kafka.protocol.admin.groups import DeleteGroupsResponse
from kafka.protocol.consumer import OffsetCommitResponse, OffsetFetchResponse
from kafka.protocol.consumer.group import HeartbeatResponse
from kafka.protocol.metadata import FindCoordinatorResponse
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from group_coordinator.gateway.health import GatewayHealth
from group_coordinator.gateway.metrics import GatewayMetrics

DELETED, FOUND = DeleteGroupsResponse.DeletableGroupResult, FindCoordinatorResponse.Coordinator
COMMITTED, FETCHED = (
    OffsetCommitResponse.OffsetCommitResponseTopic,
    OffsetFetchResponse.OffsetFetchResponseTopic,
)
OF_PARTITION = COMMITTED.OffsetCommitResponsePartition


def committed(*errors: int) -> Any:
    partitions = [OF_PARTITION(version=2, partition_index=0, error_code=each) for each in errors]
    return OffsetCommitResponse(version=2, topics=[COMMITTED(version=2, name="t", partitions=partitions)])


@pytest.mark.parametrize(
    ("response", "api", "error"),
    [
        (HeartbeatResponse(version=0, error_code=27), "Heartbeat", "REBALANCE_IN_PROGRESS"),
        (HeartbeatResponse(version=0, error_code=9_999), "Heartbeat", "9999"),
        (committed(0, 0), "OffsetCommit", "NONE"),
        (committed(0, 25, 22), "OffsetCommit", "UNKNOWN_MEMBER_ID"),
        (
            OffsetFetchResponse(version=2, topics=[], error_code=14),
            "OffsetFetch",
            "COORDINATOR_LOAD_IN_PROGRESS",
        ),
        (OffsetFetchResponse(version=8, groups=[]), "OffsetFetch", "NONE"),
        (FindCoordinatorResponse(version=0, error_code=24), "FindCoordinator", "INVALID_GROUP_ID"),
        (
            FindCoordinatorResponse(version=4, coordinators=[FOUND(version=4, error_code=15)]),
            "FindCoordinator",
            "COORDINATOR_NOT_AVAILABLE",
        ),
        (
            DeleteGroupsResponse(version=0, results=[DELETED(version=0, group_id="g", error_code=68)]),
            "DeleteGroups",
            "NON_EMPTY_GROUP",
        ),
    ],
)
def test_a_response_counts_by_its_first_error(response: Any, api: str, error: str) -> None:
    registry = CollectorRegistry()
    GatewayMetrics(registry).answered(response.API_KEY, response, 0.5)
    labels = {"api": api, "error": error}
    assert registry.get_sample_value("group_coordinator_gateway_responses_total", labels) == 1
    assert registry.get_sample_value("group_coordinator_gateway_request_seconds_sum", {"api": api}) == 0.5


def test_durations_are_counted_as_a_histogram_of_prometheus_counts_them() -> None:
    registry, library = CollectorRegistry(), CollectorRegistry()
    metrics = GatewayMetrics(registry)
    name = "group_coordinator_gateway_request_seconds"
    neighbour = Histogram(
        name,
        "",
        ["api"],
        buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
        registry=library,
    )
    for seconds in (0, 0.005, 0.0051, 0.7, 1, 60, 61, 1e9):
        metrics.answered_with(HeartbeatResponse.API_KEY, 0, seconds)
        neighbour.labels("Heartbeat").observe(seconds)

    def told(of: CollectorRegistry) -> set[str]:
        lines = generate_latest(of).decode().splitlines()
        return {
            it for it in lines if 'api="Heartbeat"' in it and it.startswith(name) and "_created" not in it
        }

    assert len(told(library)) == 16
    assert told(registry) == told(library)


def test_what_passes_is_counted() -> None:
    registry = CollectorRegistry()
    metrics = GatewayMetrics(registry)
    metrics.requests[0].inc()
    metrics.received.inc(100)
    metrics.sent.inc(20)
    for name, labels, value in (
        ("requests", {"api": "Produce", "way": "rewritten"}, 1),
        ("requests", {"api": "Fetch", "way": "passed"}, 0),
        ("bytes", {"direction": "from_clients"}, 100),
        ("bytes", {"direction": "to_clients"}, 20),
    ):
        assert registry.get_sample_value(f"group_coordinator_gateway_{name}_total", labels) == value


def test_a_gateway_that_stops_while_it_is_asked_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes come in threads of their own."""
    health, looks = GatewayHealth(), iter([Mock(**{"silent_s.return_value": 0}), None])
    monkeypatch.setattr(GatewayHealth, "_local", property(lambda _: next(looks)), raising=False)
    assert health.is_ready().good, "it was when it was asked"
    assert not health.is_ready().good
