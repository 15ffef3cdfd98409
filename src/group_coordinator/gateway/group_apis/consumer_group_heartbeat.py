"""ConsumerGroupHeartbeat: a member of the consumer protocol joins, is alive, gives up partitions, leaves."""

from __future__ import annotations

from typing import Any

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests.consumer import JOIN_EPOCH
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Pair, Responses
from group_coordinator.gateway.group_apis.topic_ids import topic_id_of
from group_coordinator.gateway.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from group_coordinator.gateway.rights import Operation
from group_coordinator.jobs.topic_patterns import Matched

__all__ = ["API", "PAIR"]

_ASSIGNMENT = ConsumerGroupHeartbeatResponse.Assignment


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    owned = message.topic_partitions
    if owned is not None:
        owned = [contract.OwnedTopic(each.partitions, str(each.topic_id)) for each in owned]
    request = contract.ConsumerGroupHeartbeatRequest(
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        group_instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=message.rebalance_timeout_ms,
        subscribed_topic_names=message.subscribed_topic_names,
        subscribed_topic_regex=message.subscribed_topic_regex,
        server_assignor=message.server_assignor,
        topic_partitions=owned,
        **about(message.group_id),
    )
    return [request]


def _response(_message: Any, version: int, responses: Responses) -> Any:
    (response,) = responses
    return ConsumerGroupHeartbeatResponse(
        version=version,
        throttle_time_ms=0,
        error_code=response.error_code,
        error_message=response.error_message,
        member_id=response.member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval_ms=response.heartbeat_interval_ms,
        assignment=_assignment(version, response.assignment),
    )


def _assignment(version: int, topics: Any) -> Any:
    """Partitions as Kafka's message has them. Units of work, which have no id of Kafka's, are left out."""
    if topics is None:
        return None
    entry = _ASSIGNMENT.TopicPartitions
    partitions = [
        entry(version=version, topic_id=topic_id, partitions=each.partitions)
        for each in topics
        if (topic_id := topic_id_of(each.topic_id)) is not None
    ]
    return _ASSIGNMENT(version=version, topic_partitions=partitions)


def _guard(request: Request) -> guarding.Guard:
    needed = guarding.right_of_member(request.message.group_id)
    if needed not in (yield [needed]):
        return Errors.GROUP_AUTHORIZATION_FAILED
    # As a broker, which asks for each name, and refuses all for one.
    if names := set(request.message.subscribed_topic_names or ()):
        allowed = yield from guarding.allowed_topics(Operation.DESCRIBE, names)
        if names - allowed:
            return Errors.TOPIC_AUTHORIZATION_FAILED
    return (yield from _resolved(request, is_judged=True))


def _unguarded(request: Request) -> guarding.Guard:
    return (yield from _resolved(request, is_judged=False))


def _resolved(request: Request, *, is_judged: bool) -> guarding.Guard:
    """Ask for the answer, with the topics that the member's pattern matches if it has one.

    As a broker, which leaves out those that the client may not see.
    """
    pattern = request.message.subscribed_topic_regex
    if not pattern or request.message.member_epoch < JOIN_EPOCH:
        return (yield guarding.Ask(request))
    too_long = contract.ConsumerGroupHeartbeatRequest.refuses_pattern(pattern)
    matched = Matched({}, too_long) if too_long is not None else (yield guarding.Match(pattern))
    if matched is None:
        # The client says everything again, and nothing is taken from its group meanwhile.
        return Errors.COORDINATOR_NOT_AVAILABLE
    if matched.problem is not None:
        return _refusal(request, Errors.INVALID_REGULAR_EXPRESSION, matched.problem)
    names = set(matched.topics)
    if is_judged and names:
        names = yield from guarding.allowed_topics(Operation.DESCRIBE, names)
    topics = [matched.topics[name] for name in sorted(names)]
    return (yield guarding.Ask(request._replace(resolved=guarding.Resolution(topics, is_judged))))


def _refusal(request: Request, error: Errors, message: str) -> Any:
    return ConsumerGroupHeartbeatResponse(
        version=request.head.api_version,
        throttle_time_ms=0,
        error_code=error.value,
        error_message=message,
        member_id=None,
        member_epoch=0,
        heartbeat_interval_ms=0,
        assignment=None,
    )


PAIR = Pair(_requests, _response)
API = GroupApi(
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    contract.ConsumerGroupHeartbeatRequest,
    _guard,
    PAIR,
    unguarded=_unguarded,
    begins_group=lambda beat: beat.epoch == 0,
)
