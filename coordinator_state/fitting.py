"""Whether an answer can be the one to a request.

Request ids are no secret: events and the page show them. So a sender of requests can have the coordinator
answer with somebody else's. Such an answer counts only if all else in it fits as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    AnyRequest,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from group_coordinator.coordinator_state.responses import InvalidRequestResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.responses import AnyResponse


def fits(
    request: AnyRequest, answer: AnyResponse | InvalidRequestResponse, *, may_lack: bool = False
) -> bool:
    """Whether an answer with the id of `request` is of its API and group, and about what it names.

    `may_lack`: an answer may leave partitions out.
    """
    if isinstance(answer, InvalidRequestResponse):
        of_request = (None, request.__struct_config__.tag), (None, request.group_id)
        is_refusal = answer.error_code == Errors.INVALID_REQUEST
        return is_refusal and answer.api in of_request[0] and answer.group_id in of_request[1]
    if not isinstance(answer, request.RESPONSE) or answer.group_id != request.group_id:
        return False
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return _is_news_for(request, answer)
    named = _named(request)
    told = _told(answer)
    if may_lack and isinstance(told, set) and isinstance(named, set):
        return told <= named
    # An error of the whole need not name what it was asked for.
    return named is None or told == named or (not told and (answer.error_code != 0 or not _lists(request)))


def _is_news_for(request: ConsumerGroupHeartbeatRequest, answer: Any) -> bool:
    """Of several members it names those with news. Of one it names that one, or has an error."""
    if request.members:
        named = {each.member_id for each in request.members}
        return {each.member_id for each in answer.members or ()} <= named
    is_own = answer.member_id == request.member_id or not request.member_id
    return is_own if answer.error_code == Errors.NONE else answer.member_id is None


def _lists(request: AnyRequest) -> bool:
    """Whether an answer without an error names what the request has named."""
    if isinstance(request, LeaveGroupRequest):
        return request.version >= request.STATIC_VERSION
    return not isinstance(request, HeartbeatRequest) or bool(request.members)


def _named(request: AnyRequest) -> set[Any] | list[Any] | None:
    """The members or partitions in a request; None: the answer may name any."""
    match request:
        case HeartbeatRequest():
            return [each.member_id for each in request.members] if request.members else []
        case LeaveGroupRequest():
            return [each.member_id for each in request.members]
        case OffsetCommitRequest() | OffsetDeleteRequest():
            return _partitions(request.topics)
        case OffsetFetchRequest(topics=list(topics)):
            return {(topic.name, each) for topic in topics for each in topic.partition_indexes}
        case _:
            return None


def _told(answer: Any) -> set[Any] | list[Any]:
    if hasattr(answer, "topics"):
        return _partitions(answer.topics)
    return [each.member_id for each in getattr(answer, "members", None) or ()]


def _partitions(topics: Iterable[Any]) -> set[Any]:
    return {(topic.name, each.partition_index) for topic in topics for each in topic.partitions}
