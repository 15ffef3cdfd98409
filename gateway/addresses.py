"""The brokers' addresses, and those that the gateway tells clients in their place.

A client connects to the addresses that responses name. So the gateway rewrites each response that names one:
behind each broker's node id stands an address of the gateway. A broker without one is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.protocol.admin.cluster import DescribeClusterResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.partitioning import partition_for_key
from group_coordinator.gateway.apis import APIS, HIDDEN_FEATURES, OfferedVersions, offered

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = [
    "Address",
    "Addresses",
    "coordinator_of",
    "rewrite_api_versions",
    "unsupported_api_versions",
]

_API_VERSIONS = ApiVersionsResponse.API_KEY
_NOWHERE = (-1, "", -1)


class Address(NamedTuple):
    """Host and port, as a client is told."""

    host: str
    port: int


class Addresses:
    """The gateway's address for each broker.

    `of_node` is given a broker's node id and its own address. It returns the gateway's, or None if there is
    none.
    """

    def __init__(self, of_node: Callable[[int, Address], Address | None]) -> None:
        self._of_node = of_node

    def rewrite(self, message: Any) -> None:
        """Replace the addresses in `message`, a response of one of the APIs that have any."""
        match message:
            case MetadataResponse():
                message.brokers = [each for each in message.brokers if self._replace(each, each.node_id)]
            case DescribeClusterResponse():
                message.brokers = [each for each in message.brokers if self._replace(each, each.broker_id)]
            case ProduceResponse():
                nodes = message.node_endpoints or []
                message.node_endpoints = [each for each in nodes if self._replace(each, each.node_id)]
            case FindCoordinatorResponse():
                # Before version 4 there is one, whose fields are the message's own.
                for each in message.coordinators or [message]:
                    if each.error_code == Errors.NONE and not self._replace(each, each.node_id):
                        each.error_code = Errors.COORDINATOR_NOT_AVAILABLE.value
                        each.node_id, each.host, each.port = _NOWHERE
            case _:
                raise AssertionError(message)

    def _replace(self, named: Any, node_id: int) -> bool:
        address = self._of_node(node_id, Address(named.host, named.port))
        if address is None:
            return False
        named.host, named.port = address
        return True


def coordinator_of(group_id: str, node_ids: Collection[int]) -> int | None:
    """The node that a group's coordinator is said to be at; None if there is no node.

    Any port answers for any group. But clients look the node up in Metadata, and tools show it: so all
    gateways name the same one, and different groups different ones.
    """
    nodes = sorted(node_ids)
    return nodes[partition_for_key(group_id.encode(), len(nodes))] if nodes else None


def rewrite_api_versions(message: Any) -> None:
    """Take out of a broker's ApiVersions what the gateway does not offer."""
    versions = [
        OfferedVersions(each.api_key, each.min_version, each.max_version) for each in message.api_keys
    ]
    entry = ApiVersionsResponse.ApiVersion
    message.api_keys = [
        entry(version=message.version, api_key=key, min_version=oldest, max_version=newest)
        for key, oldest, newest in offered(versions)
    ]
    for features in (message.supported_features, message.finalized_features):
        if features:
            features[:] = [each for each in features if each.name not in HIDDEN_FEATURES]


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
