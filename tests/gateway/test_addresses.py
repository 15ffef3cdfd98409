"""No response names a broker's own address, and nothing is offered that the gateway cannot do."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin.cluster import DescribeClusterResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from group_coordinator.gateway import codec
from group_coordinator.gateway.addresses import (
    Address,
    Addresses,
    coordinator_of,
    rewrite_api_versions,
    unsupported_api_versions,
)
from group_coordinator.gateway.apis import APIS, OfferedVersions, Way, offered

OURS = {1: Address("gateway", 20_001), 2: Address("gateway", 20_002)}


def rewritten(message: Any, known: dict[int, Address] = OURS) -> tuple[Any, list[tuple[int, Address]]]:
    """The message as a client gets it, and the addresses that it had."""
    seen: list[tuple[int, Address]] = []

    def of_node(node_id: int, own: Address) -> Address | None:
        seen.append((node_id, own))
        return known.get(node_id)

    Addresses(of_node).rewrite(message)
    key, version = message.API_KEY, message.version
    frame = codec.encode_response(message, 1)
    assert b"broker" not in frame
    return codec.decode_response(key, version, frame), seen


@pytest.mark.parametrize("version", range(14))
def test_metadata(version: int) -> None:
    kind = MetadataResponse.MetadataResponseBroker
    brokers = [kind(version=version, node_id=each, host=f"broker{each}", port=9092) for each in (1, 2, 3)]
    told, seen = rewritten(MetadataResponse(version=version, brokers=brokers))
    assert [(each.node_id, each.host, each.port) for each in told.brokers] == [
        (1, "gateway", 20_001),
        (2, "gateway", 20_002),
    ], "one without an address is left out"
    assert seen[0] == (1, Address("broker1", 9092))


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(version: int) -> None:
    kind = DescribeClusterResponse.DescribeClusterBroker
    brokers = [kind(version=version, broker_id=2, host="broker2", port=9092)]
    told, _ = rewritten(DescribeClusterResponse(version=version, cluster_id="c", brokers=brokers))
    assert [(each.broker_id, each.host, each.port) for each in told.brokers] == [(2, "gateway", 20_002)]


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_transaction(version: int) -> None:
    fields = {"node_id": 1, "host": "broker1", "port": 9092, "error_code": 0}
    if version >= 4:
        kind = FindCoordinatorResponse.Coordinator
        found = [
            kind(version=version, key="t", **fields),
            kind(version=version, key="u", **fields | {"node_id": 3}),
            kind(version=version, key="v", node_id=-1, host="", port=-1, error_code=15),
        ]
        told, seen = rewritten(FindCoordinatorResponse(version=version, coordinators=found))
        assert [(each.error_code, each.node_id, each.host, each.port) for each in told.coordinators] == [
            (0, 1, "gateway", 20_001),
            (15, -1, "", -1),
            (15, -1, "", -1),
        ]
        assert [node_id for node_id, _ in seen] == [1, 3], "an error names no address"
    else:
        told, _ = rewritten(FindCoordinatorResponse(version=version, **fields))
        assert (told.node_id, told.host, told.port) == (1, "gateway", 20_001)


@pytest.mark.parametrize("version", range(10, 14))
def test_leaders_that_a_produce_is_told_of(version: int) -> None:
    kind = ProduceResponse.NodeEndpoint
    nodes = [kind(version=version, node_id=each, host="broker", port=9092, rack=None) for each in (2, 3)]
    told, _ = rewritten(ProduceResponse(version=version, responses=[], node_endpoints=nodes))
    assert [(each.node_id, each.host, each.port) for each in told.node_endpoints] == [(2, "gateway", 20_002)]


def test_a_coordinator_is_always_the_same_node_and_all_nodes_have_some() -> None:
    groups = [f"group-{number}" for number in range(200)]
    assert {coordinator_of(each, [3, 1, 2]) for each in groups} == {1, 2, 3}
    assert [coordinator_of(each, [3, 1, 2]) for each in groups] == [
        coordinator_of(each, {1: 0, 2: 0, 3: 0}) for each in groups
    ]
    assert coordinator_of("group", []) is None


# -- what is offered -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_api_versions(version: int) -> None:
    entry = ApiVersionsResponse.ApiVersion
    message = ApiVersionsResponse(
        version=version,
        api_keys=[
            entry(version=version, api_key=key, min_version=0, max_version=99)
            for key in (0, 8, 17, 25, 69, 1_000)
        ],
    )
    if version >= 3:
        feature = ApiVersionsResponse.SupportedFeatureKey
        message.supported_features = [
            feature(version=version, name=name, min_version=0, max_version=1)
            for name in ("group.version", "transaction.version")
        ]
    rewrite_api_versions(message)
    told = codec.decode_response(18, version, codec.encode_response(message, 1))
    assert [(each.api_key, each.min_version, each.max_version) for each in told.api_keys] == [
        (0, 0, 99),
        (8, 0, 9),
        (17, 1, 1),
    ]
    if version >= 3:
        assert [each.name for each in told.supported_features] == ["transaction.version"]


def test_api_versions_of_a_version_that_is_not_offered() -> None:
    frame = codec.encode_response(unsupported_api_versions(), 7)
    # Length, correlation id, error 35, one entry: API 18 in versions 0 to 4. No version 3 has so few bytes.
    assert frame.hex() == "00000010" + "00000007" + "0023" + "00000001" + "001200000004"


def test_what_is_hidden_or_unknown_is_not_offered() -> None:
    hidden = [key for key, api in APIS.items() if api.way is Way.HIDDEN]
    assert {25, 27, 28, 69, 76, 88} <= set(hidden)
    assert offered([OfferedVersions(key, 0, 1) for key in (*hidden, 4, 1_000)]) == []
