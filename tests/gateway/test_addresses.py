"""All gateways name the same coordinators, and nothing is offered that the gateway cannot do."""

from __future__ import annotations

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from group_coordinator.coordinator_state.partitioning import partition_for_key
from group_coordinator.gateway import codec
from group_coordinator.gateway.addresses import (
    coordinator_of,
    hash_of,
    rewrite_api_versions,
    unsupported_api_versions,
)
from group_coordinator.gateway.apis import APIS, OfferedVersions, Way, offered


def test_a_coordinator_is_always_the_same_node_and_all_nodes_have_some() -> None:
    groups = [f"group-{number}" for number in range(200)]
    assert {coordinator_of(hash_of(each), [1, 2, 3]) for each in groups} == {1, 2, 3}
    assert [coordinator_of(hash_of(each), (1, 2, 3)) for each in groups] == [
        1 + partition_for_key(each.encode(), 3) for each in groups
    ]
    assert coordinator_of(hash_of("group"), []) is None


# -- what is offered -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_api_versions(version: int) -> None:
    entry = ApiVersionsResponse.ApiVersion
    message = ApiVersionsResponse(
        version=version,
        api_keys=[
            entry(version=version, api_key=key, min_version=0, max_version=99)
            for key in (0, 8, 17, 25, 68, 69, 76, 1_000)
        ],
    )
    if version >= 3:
        feature = ApiVersionsResponse.SupportedFeatureKey
        message.supported_features = [
            feature(version=version, name=name, min_version=0, max_version=1)
            for name in ("group.version", "share.version", "transaction.version")
        ]
    rewrite_api_versions(message)
    told = codec.decode_response(18, version, codec.encode_response(message, 1))
    assert [(each.api_key, each.min_version, each.max_version) for each in told.api_keys] == [
        (0, 0, 12),
        (8, 0, 9),
        (17, 1, 1),
        (68, 0, 1),
        (69, 0, 1),
    ]
    if version >= 3:
        assert [each.name for each in told.supported_features] == ["group.version", "transaction.version"]


def test_api_versions_of_a_version_that_is_not_offered() -> None:
    frame = codec.encode_response(unsupported_api_versions(), 7)
    # Length, correlation id, error 35, one entry: API 18 in versions 0 to 4. No version 3 has so few bytes.
    assert frame.hex() == "00000010" + "00000007" + "0023" + "00000001" + "001200000004"


def test_what_is_hidden_or_unknown_is_not_offered() -> None:
    hidden = [key for key, api in APIS.items() if api.way is Way.HIDDEN]
    assert {25, 27, 28, 76, 88} <= set(hidden)
    assert offered([OfferedVersions(key, 0, 1) for key in (*hidden, 4, 1_000)]) == []
