"""Addresses, coordinators and offered versions, as clients are told them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from kafka.protocol.metadata import ApiVersionsResponse

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.partitioning import partition_for_key
from group_coordinator.gateway.apis import ALONE, APIS, Offer, OfferedVersions, offered

_API_VERSIONS = ApiVersionsResponse.API_KEY
_HASHES = 2**31
Serving: TypeAlias = Sequence[tuple[int, tuple[str, int]]]
"""Brokers that can serve a client, by node id and address. It is served by the first that can be reached."""


class Address(NamedTuple):
    """Host and port, as a client is told."""

    host: str
    port: int


def hash_of(group_id: str) -> int:
    """The number by which `coordinator_of` tells groups apart. It takes some 10 µs."""
    return partition_for_key(group_id.encode(), _HASHES)


def coordinator_of(hashed: int, nodes: Sequence[int]) -> int | None:
    """The node that the coordinator of a group with this hash is said to be at; None if there is no node.

    Any port answers for any group. But clients look the node up in Metadata, and tools show it: so all
    gateways name the same one, and different groups different ones. `nodes`: sorted.
    """
    return nodes[hashed % len(nodes)] if nodes else None


def rewrite_api_versions(message: Any, offer: Offer = ALONE) -> None:
    """Take out of a broker's ApiVersions what the gateway does not offer."""
    versions = [
        OfferedVersions(each.api_key, each.min_version, each.max_version) for each in message.api_keys
    ]
    entry = ApiVersionsResponse.ApiVersion
    message.api_keys = [
        entry(version=message.version, api_key=key, min_version=oldest, max_version=newest)
        for key, oldest, newest in offered(versions, offer.apis)
    ]
    for features in (message.supported_features, message.finalized_features):
        if features:
            features[:] = [each for each in features if each.name not in offer.hidden_features]


def unsupported_api_versions() -> Any:
    """The answer to an ApiVersions of a version that is not offered: in version 0, of ApiVersions itself.

    Java's client asks again with the version that it names (NetworkClient.handleApiVersionsResponse).
    """
    entry = ApiVersionsResponse.ApiVersion
    newest = APIS[_API_VERSIONS].newest
    return ApiVersionsResponse(
        version=0,
        error_code=Errors.UNSUPPORTED_VERSION.value,
        api_keys=[entry(version=0, api_key=_API_VERSIONS, min_version=0, max_version=newest)],
    )
