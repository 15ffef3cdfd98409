"""OffsetDelete: a tool deletes offsets of one group."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka.protocol.consumer.group import OffsetDeleteRequest, OffsetDeleteResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.gateway.group_apis.changed_offsets import guard
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Pair, alike, like
from group_coordinator.gateway.rights import Operation


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    topics = [
        contract.OffsetDeleteTopic(
            topic.name, [like(each, contract.OffsetDeletePartition) for each in topic.partitions]
        )
        for topic in message.topics
    ]
    return [contract.OffsetDeleteRequest(topics=topics, **about(message.group_id))]


API = GroupApi(
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    contract.OffsetDeleteRequest,
    partial(guard, Operation.DELETE, OffsetDeleteResponse),
    Pair(_requests, alike(OffsetDeleteResponse)),
    results=("topics", "partitions"),
)
