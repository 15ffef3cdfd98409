"""The answers that clients get while their group moves to the other side.

Neither side serves the group then. A client is told that its coordinator is not there, so it keeps its
partitions, looks the coordinator up again and tries again. Its request becomes its leave from the side that
the group comes from. So that side soon has no members but those that do not come through a gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddOffsetsToTxnRequest

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec, of_brokers
from group_coordinator.gateway.group_apis.find_coordinator import NOWHERE, found
from group_coordinator.gateway.group_apis.table import GROUP_APIS
from group_coordinator.gateway.messages import ConsumerGroupHeartbeatRequest
from group_coordinator.gateway.translation import refused

if TYPE_CHECKING:
    from group_coordinator.gateway.frames import Request, RequestHead

_LEAVES = {
    each.API_KEY
    for each in (
        ConsumerGroupHeartbeatRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        OffsetCommitRequest,
        SyncGroupRequest,
    )
}
"""Requests by which a member may learn first that its coordinator is not there. It sends no others then."""
_LEAVE_VERSION = 3
"""The version of LeaveGroup that brought static members, which all brokers have."""
_NOWHERE = {**NOWHERE, "error_code": Errors.COORDINATOR_NOT_AVAILABLE.value}


def answer(request: Request) -> Any:
    """Kafka's response to a request of groups that move."""
    if request.head.api_key == FindCoordinatorRequest.API_KEY:
        return found(request, lambda _: _NOWHERE)
    return refused(request, Errors.NOT_COORDINATOR)


def refusal(head: RequestHead, frame: bytes) -> bytes:
    """Write the same to a request of one group. Raises `FrameError`."""
    if head.api_key in GROUP_APIS:
        return codec.encode_response(answer(codec.decode_request(frame)), head.correlation_id)
    # A producer would look up the coordinator of its transaction in vain.
    is_producer = head.api_key == AddOffsetsToTxnRequest.API_KEY
    error = Errors.COORDINATOR_LOAD_IN_PROGRESS if is_producer else Errors.NOT_COORDINATOR
    return of_brokers.refusal(head, frame, error, "")


def leave_of(request: Request) -> Request | None:
    """The leave of the member that a request names; None if it names none."""
    message = request.message
    if request.head.api_key not in _LEAVES:
        return None
    of_consumer = request.head.api_key == ConsumerGroupHeartbeatRequest.API_KEY
    instance_id = getattr(message, "instance_id" if of_consumer else "group_instance_id", None)
    if not message.member_id and instance_id is None:
        return None
    member = LeaveGroupRequest.MemberIdentity(member_id=message.member_id, group_instance_id=instance_id)
    leave = LeaveGroupRequest(version=_LEAVE_VERSION, group_id=message.group_id, members=[member])
    head = request.head._replace(api_key=LeaveGroupRequest.API_KEY, api_version=_LEAVE_VERSION)
    return request._replace(head=head, message=leave)
