"""The rules that a request meets: which ones depends on the kind of the group that it is about.

`docs/contract.md` has them as a table. A group that becomes one of the other kind keeps its offsets.

Source: GroupMetadataManager.java of Apache Kafka 4.4 with the migration policy `disabled`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from group_coordinator.coordinator_state.classic.describe_group import handle_describe_group
from group_coordinator.coordinator_state.classic.heartbeat import beat, handle_heartbeat
from group_coordinator.coordinator_state.classic.join_group import handle_join_group
from group_coordinator.coordinator_state.classic.leave_group import handle_leave_group, leave
from group_coordinator.coordinator_state.classic.sync_group import handle_sync_group
from group_coordinator.coordinator_state.consumer import classic_requests
from group_coordinator.coordinator_state.consumer.describe import handle_consumer_group_describe
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.heartbeat import handle_consumer_group_heartbeat
from group_coordinator.coordinator_state.consumer.topic_metadata import take_topic_metadata
from group_coordinator.coordinator_state.delete_group import handle_delete_group
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.find_coordinator import handle_find_coordinator
from group_coordinator.coordinator_state.offsets.offset_commit import handle_offset_commit
from group_coordinator.coordinator_state.offsets.offset_delete import handle_offset_delete
from group_coordinator.coordinator_state.offsets.offset_fetch import handle_offset_fetch
from group_coordinator.coordinator_state.requests import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupRequest,
    DescribeGroupRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TopicMetadataRequest,
)
from group_coordinator.coordinator_state.requests.consumer import JOIN_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.coordinator_state.kinds import AnyGroup
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.requests import AnyRequest
    from group_coordinator.coordinator_state.turn import Turn


def apply(
    turn: Turn[AnyGroup], request: AnyRequest, record: Record, new_member_id: Callable[[str], str]
) -> str | None:
    """Apply `request`, which came as `record`; return why it cannot be, if it is refused without an answer.

    `new_member_id`: makes the id of a member that asks for one, which begins with what is given.
    """
    match request:
        # First, because most requests are heartbeats.
        case HeartbeatRequest():
            _apply_classic(turn, request, new_member_id)
        case OffsetCommitRequest():
            handle_offset_commit(turn, request)
        case OffsetFetchRequest():
            handle_offset_fetch(turn, request)
        case OffsetDeleteRequest():
            handle_offset_delete(turn, request)
        case DeleteGroupRequest():
            handle_delete_group(turn, request)
        case FindCoordinatorRequest():
            handle_find_coordinator(turn, request, record)
        case ConsumerGroupHeartbeatRequest() | ConsumerGroupDescribeRequest() | TopicMetadataRequest():
            return _apply_consumers(turn, request, new_member_id)
        case _:
            _apply_classic(turn, request, new_member_id)
    return None


_Classic = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest | DescribeGroupRequest
_Consumers = ConsumerGroupHeartbeatRequest | ConsumerGroupDescribeRequest | TopicMetadataRequest
# Below the cases know the kind of the group, and no type does. A cast would be a call for each request.


def _apply_classic(turn: Turn[Any], request: _Classic, new_member_id: Callable[[str], str]) -> None:
    is_consumers = turn.has(ConsumerGroup.KIND)
    match request:
        case HeartbeatRequest() if is_consumers:
            handle_heartbeat(turn, request, classic_requests.stranger)
        case HeartbeatRequest():
            handle_heartbeat(turn, request, beat)
        case JoinGroupRequest() if is_consumers and not turn.group.is_empty:
            classic_requests.refuse_join(turn, request)
        case JoinGroupRequest():
            prefix = request.group_instance_id or request.client_id
            handle_join_group(turn, request, new_member_id(prefix))
        case SyncGroupRequest() if is_consumers:
            turn.answer(request, classic_requests.stranger(turn, request))
        case SyncGroupRequest():
            handle_sync_group(turn, request)
        case LeaveGroupRequest() if is_consumers:
            handle_leave_group(turn, request, classic_requests.leave)
        case LeaveGroupRequest():
            handle_leave_group(turn, request, leave)
        case DescribeGroupRequest():
            handle_describe_group(turn, request)
        case _:
            assert_never(request)


def _apply_consumers(turn: Turn[Any], request: _Consumers, new_member_id: Callable[[str], str]) -> str | None:
    is_consumers = turn.has(ConsumerGroup.KIND)
    match request:
        case ConsumerGroupHeartbeatRequest() if is_consumers or not turn.exists or _takes_over(turn, request):
            # To make an id takes longer than all else that most heartbeats do.
            needs_id = not request.member_id and request.members is msgspec.UNSET
            new_id = new_member_id(request.client_id) if needs_id else ""
            handle_consumer_group_heartbeat(turn, request, new_id)
        case ConsumerGroupHeartbeatRequest():
            message = f"Group {turn.group_id} is not a consumer group."
            turn.answer(request, Errors.GROUP_ID_NOT_FOUND, message)
        case ConsumerGroupDescribeRequest():
            handle_consumer_group_describe(turn, request)
        case TopicMetadataRequest():
            # A group that is not there, or not of this kind any more, names no topics.
            return take_topic_metadata(turn, request) if is_consumers else None
        case _:
            assert_never(request)
    return None


def _takes_over(turn: Turn[AnyGroup], request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a classic group becomes one of consumers by it."""
    return turn.group.is_empty and request.epoch == JOIN_EPOCH
