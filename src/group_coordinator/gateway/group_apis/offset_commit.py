"""OffsetCommit: a member or a tool commits offsets of one group."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka.protocol.consumer.group import OffsetCommitRequest, OffsetCommitResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.group_apis.changed_offsets import guard, refused_topics
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Pair, alike, like
from group_coordinator.gateway.rights import Operation


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    topics = [
        contract.OffsetCommitTopic(
            topic.name, [like(each, contract.OffsetCommitPartition) for each in topic.partitions]
        )
        for topic in message.topics
    ]
    request = like(
        message,
        contract.OffsetCommitRequest,
        generation_id=message.generation_id_or_member_epoch,
        topics=topics,
        **about(message.group_id),
    )
    return [request]


def _refused(asked: contract.OffsetCommitRequest, error: Errors) -> Any:
    response: Any = asked.refused(error, None)
    response.topics = refused_topics(asked.topics, error.value)
    return response


API = GroupApi(
    OffsetCommitRequest,
    OffsetCommitResponse,
    # From version 10 on topics are named by their ids, which the coordinator does not know.
    contract.OffsetCommitRequest,
    partial(guard, Operation.READ, OffsetCommitResponse),
    Pair(_requests, alike(OffsetCommitResponse)),
    results=("topics", "partitions"),
    too_large=Errors.INVALID_COMMIT_OFFSET_SIZE,
    refused=_refused,
    begins_group=lambda commit: commit.generation_id < 0,
    # Not 15: Java's client would drop the connection with all that is in flight.
    late=Errors.COORDINATOR_LOAD_IN_PROGRESS,
)
