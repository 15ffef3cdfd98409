"""The guard and the results that OffsetCommit and OffsetDelete have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.responses import PartitionResult, TopicResult
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.rights import Operation


def refused_topics(topics: Iterable[Any], error_code: int) -> list[TopicResult]:
    """The topics of a request, Kafka's or the contract's, with the error for each partition."""
    return [
        TopicResult(
            topic.name, [PartitionResult(each.partition_index, error_code) for each in topic.partitions]
        )
        for topic in topics
    ]


def guard(operation: Operation, response_kind: Any, request: Request) -> guarding.Guard:
    """Guard a request, whose denied topics are told of in front of the others.

    `operation`: what a client does to the group if it changes offsets in this way.
    """
    message = request.message
    if not (yield from guarding.allowed_groups(operation, [message.group_id])):
        return Errors.GROUP_AUTHORIZATION_FAILED
    names = yield from guarding.allowed_topics(Operation.READ, [each.name for each in message.topics])
    allowed = [each for each in message.topics if each.name in names]
    if len(allowed) == len(message.topics):
        return (yield guarding.Ask(request))
    others = [each for each in message.topics if each.name not in names]
    denied = refused_topics(others, guarding.TOPIC_DENIED)
    if not allowed:
        # The coordinator is not asked, so that the member may be anybody.
        return response_kind(version=request.head.api_version, throttle_time_ms=0, topics=denied)
    response = yield guarding.Ask(guarding.with_fields(request, topics=allowed))
    if not getattr(response, "error_code", 0):
        response.topics = [*denied, *response.topics]
    return response
