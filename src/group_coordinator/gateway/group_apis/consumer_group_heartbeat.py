"""ConsumerGroupHeartbeat: a member of the consumer protocol joins, is alive, gives up partitions, leaves."""

from __future__ import annotations

from typing import Any

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests.consumer import JOIN_EPOCH
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Pair, Responses, like
from group_coordinator.gateway.group_apis.topic_ids import assignment
from group_coordinator.gateway.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from group_coordinator.gateway.rights import Operation
from group_coordinator.jobs.topic_patterns import Matched


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    owned = message.topic_partitions
    if owned is not None:
        owned = [contract.OwnedTopic(each.partitions, str(each.topic_id)) for each in owned]
    request = like(
        message,
        contract.ConsumerGroupHeartbeatRequest,
        group_instance_id=message.instance_id,
        topic_partitions=owned,
        **about(message.group_id),
    )
    return [request]


def _response(_message: Any, version: int, responses: Responses) -> Any:
    (response,) = responses
    topics = response.assignment
    news = None if topics is None else assignment(topics)
    return like(response, ConsumerGroupHeartbeatResponse, version=version, assignment=news)


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
        error = Errors.INVALID_REGULAR_EXPRESSION.value
        return ConsumerGroupHeartbeatResponse(
            version=request.head.api_version, error_code=error, error_message=matched.problem, assignment=None
        )
    names = set(matched.topics)
    if is_judged and names:
        names = yield from guarding.allowed_topics(Operation.DESCRIBE, names)
    topics = [matched.topics[name] for name in sorted(names)]
    return (yield guarding.Ask(request._replace(resolved=guarding.Resolution(topics, is_judged))))


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
