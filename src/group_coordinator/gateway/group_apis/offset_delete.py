"""OffsetDelete: a tool deletes offsets of one group."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer.group import OffsetDeleteRequest, OffsetDeleteResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.gateway.group_apis.changed_offsets import ChangedOffsets
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Pair, Responses
from group_coordinator.gateway.rights import Operation

__all__ = ["API"]

_TOPIC = OffsetDeleteResponse.OffsetDeleteResponseTopic
_CHANGED = ChangedOffsets(
    Operation.DELETE, OffsetDeleteResponse, _TOPIC, _TOPIC.OffsetDeleteResponsePartition
)


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    topics = [
        contract.OffsetDeleteTopic(
            topic.name,
            [
                contract.OffsetDeletePartition(partition_index=each.partition_index)
                for each in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return [contract.OffsetDeleteRequest(topics=topics, **about(message.group_id))]


def _response(_message: Any, version: int, responses: Responses) -> Any:
    (response,) = responses
    topics = _CHANGED.results(version, response.topics)
    return OffsetDeleteResponse(
        version=version, error_code=response.error_code, throttle_time_ms=0, topics=topics
    )


API = GroupApi(
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    contract.OffsetDeleteRequest,
    _CHANGED.guard,
    Pair(_requests, _response),
    results=("topics", "partitions"),
)
