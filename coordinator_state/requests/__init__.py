"""The requests of the contract (`docs/contract.md`), decoded strictly.

Names are those of Kafka's protocol messages in snake_case. Decoding checks the type and range of each field,
and refuses a field that is not in the contract. So nothing behind this module has to check again.
"""

from __future__ import annotations

from group_coordinator.coordinator_state.requests.any_kind import (
    DeleteGroupRequest,
    FindCoordinatorRequest,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetDeletePartition,
    OffsetDeleteRequest,
    OffsetDeleteTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from group_coordinator.coordinator_state.requests.base import MAX_REASON, Request
from group_coordinator.coordinator_state.requests.classic import (
    BeatingMember,
    DescribeGroupRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    Protocol,
    SyncGroupRequest,
)
from group_coordinator.coordinator_state.requests.consumer import (
    AliveMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    OwnedTopic,
    PatternTopics,
    Resolved,
    TopicFacts,
    TopicMetadataRequest,
)

__all__ = [
    "MAX_REASON",
    "AliveMember",
    "AnyRequest",
    "BeatingMember",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupHeartbeatRequest",
    "DeleteGroupRequest",
    "DescribeGroupRequest",
    "FindCoordinatorRequest",
    "HeartbeatRequest",
    "JoinGroupRequest",
    "LeaveGroupRequest",
    "LeavingMember",
    "MemberAssignment",
    "OffsetCommitPartition",
    "OffsetCommitRequest",
    "OffsetCommitTopic",
    "OffsetDeletePartition",
    "OffsetDeleteRequest",
    "OffsetDeleteTopic",
    "OffsetFetchRequest",
    "OffsetFetchTopic",
    "OwnedTopic",
    "PatternTopics",
    "Protocol",
    "Request",
    "Resolved",
    "SyncGroupRequest",
    "TopicFacts",
    "TopicMetadataRequest",
]

AnyRequest = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | DescribeGroupRequest
    | DeleteGroupRequest
    | FindCoordinatorRequest
    | ConsumerGroupHeartbeatRequest
    | ConsumerGroupDescribeRequest
    | TopicMetadataRequest
)
