"""The responses of the contract, and the picture of a group that tools read."""

from __future__ import annotations

from typing import Annotated, Any, Self

import msgspec

from group_coordinator.coordinator_state.config import INT32_MAX, INT64_MAX
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.foreign import Ms

Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=-INT32_MAX - 1, le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=-INT64_MAX - 1, le=INT64_MAX)]


class ReplyTo(msgspec.Struct, frozen=True, array_like=True):
    """The sender of a request, and how to answer it. A parked request is no more than that."""

    request_id: str
    client_id: str
    partition: int | None
    api_version: int


class Response(msgspec.Struct, kw_only=True, tag_field="api"):
    """The fields of all responses. `error_code` and `error` are Kafka's number and name."""

    request_id: str
    client_id: str
    group_id: str
    error_code: Int16 = 0
    error: str = "NONE"
    error_message: str | None = None

    @classmethod
    def to(
        cls,
        reply_to: ReplyTo,
        group_id: str,
        error: Errors = Errors.NONE,
        message: str | None = None,
        **fields: Any,
    ) -> Self:
        """Make the response to `reply_to`; `fields` are the ones of the API."""
        return cls(
            request_id=reply_to.request_id,
            client_id=reply_to.client_id,
            group_id=group_id,
            error_code=error.value,
            error=error.name,
            error_message=message,
            **fields,
        )


class JoinGroupMember(msgspec.Struct, frozen=True):
    """A member as the leader sees it: `metadata` is its subscription under the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResponse(Response, kw_only=True, tag="join_group"):
    """Answer to JoinGroup. The defaults are the shape of an error answer; only the leader gets `members`."""

    generation_id: Int32 = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: list[JoinGroupMember] = []

    @classmethod
    def to(cls, reply_to: ReplyTo, *args: Any, **fields: Any) -> Self:
        """Make the response to `reply_to`; an answer without a protocol says so as its version does."""
        if reply_to.api_version < 7:  # noqa: PLR2004 - null came with version 7
            fields.setdefault("protocol_name", "")
        return super().to(reply_to, *args, **fields)


class SyncGroupResponse(Response, kw_only=True, tag="sync_group"):
    """Answer to SyncGroup: the member's own assignment."""

    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class MemberResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one member of a LeaveGroup or a Heartbeat of several. The ids are echoed as sent."""

    member_id: str
    group_instance_id: str | None = None
    error_code: Int16 = 0


class HeartbeatResponse(Response, kw_only=True, tag="heartbeat"):
    """Answer to Heartbeat; `members` if it was of several."""

    members: list[MemberResult] | msgspec.UnsetType = msgspec.UNSET


class LeaveGroupResponse(Response, kw_only=True, tag="leave_group"):
    """Answer to LeaveGroup. Before version 3 the one member's error is the top-level one."""

    members: list[MemberResult] = []


class PartitionResult(msgspec.Struct, frozen=True):
    """The result for one partition of an OffsetCommit or OffsetDelete."""

    partition_index: Int32
    error_code: Int16 = 0


class TopicResult(msgspec.Struct, frozen=True):
    """The results for the partitions of one topic."""

    name: str
    partitions: list[PartitionResult]


class OffsetCommitResponse(Response, kw_only=True, tag="offset_commit"):
    """Answer to OffsetCommit. An error of the whole request stands at each partition as well."""

    topics: list[TopicResult] = []


class FetchedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """One partition in the answer to OffsetFetch. The defaults say that nothing is committed."""

    partition_index: Int32
    committed_offset: Int64 = -1
    committed_leader_epoch: Int32 = -1
    metadata: str = ""
    error_code: Int16 = 0
    topic_id: str | msgspec.UnsetType = msgspec.UNSET
    """Kafka's id of the topic that it was committed for, if the commit has given it."""


class FetchedOffsetsOfTopic(msgspec.Struct, frozen=True):
    """The partitions of one topic in the answer to OffsetFetch."""

    name: str
    partitions: list[FetchedOffset]


class OffsetFetchResponse(Response, kw_only=True, tag="offset_fetch"):
    """Answer to OffsetFetch."""

    topics: list[FetchedOffsetsOfTopic] = []


class OffsetDeleteResponse(Response, kw_only=True, tag="offset_delete"):
    """Answer to OffsetDelete; without topics if nothing could be deleted."""

    topics: list[TopicResult] = []


class DescribedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member as DescribeGroups shows it: its subscription in Stable only, its last assignment always."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribeGroupResponse(Response, kw_only=True, tag="describe_group"):
    """Answer to DescribeGroup. `protocol_data` is the chosen protocol, in Stable only.

    `generation_id` and `leader` are not in Kafka's answer. The defaults describe a group that is not there.
    """

    group_state: str = "Dead"
    protocol_type: str = ""
    protocol_data: str = ""
    generation_id: Int32 = -1
    leader: str = ""
    members: list[DescribedMember] = []


class AssignedTopic(msgspec.Struct, frozen=True):
    """Partitions of one topic, of a member of the consumer protocol. The id is null for units of work."""

    topic_id: str | None
    name: str
    partitions: list[Int32]


class ConsumerMemberResult(msgspec.Struct, frozen=True, kw_only=True):
    """The news for one member of a ConsumerGroupHeartbeat of several."""

    member_id: str
    error_code: Int16 = 0
    member_epoch: Int32 = 0
    assignment: list[AssignedTopic] | None = None


class ConsumerGroupHeartbeatResponse(Response, kw_only=True, tag="consumer_group_heartbeat"):
    """Answer to ConsumerGroupHeartbeat; `assignment` null: what the member has is as it was.

    `members`, if it was of several, has those for which there is news.
    """

    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: list[AssignedTopic] | None = None
    members: list[ConsumerMemberResult] | msgspec.UnsetType = msgspec.UNSET


class DescribedConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """A member as ConsumerGroupDescribe shows it: `assignment` is all that it may still hold."""

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str
    assignment: list[AssignedTopic]
    target_assignment: list[AssignedTopic]
    member_type: Int32 = 1
    """Kafka's number for a member that speaks the consumer protocol."""


class ConsumerGroupDescribeResponse(Response, kw_only=True, tag="consumer_group_describe"):
    """Answer to ConsumerGroupDescribe."""

    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[DescribedConsumer] = []


class TopicMetadataResponse(Response, kw_only=True, tag="topic_metadata"):
    """Answer to a record of topic metadata that is refused unseen; others have none."""


class DeleteGroupResponse(Response, kw_only=True, tag="delete_group"):
    """Answer to DeleteGroup."""


class FindCoordinatorResponse(Response, kw_only=True, tag="find_coordinator"):
    """Answer to FindCoordinator: where the group's requests belong, and which task has its state.

    Those who make requests learn the coordinator's limits by it (settings of the same names; 0: not known).
    """

    topic: str = ""
    partition: int = -1
    state_partition: int = -1
    max_request_bytes: int = 0
    max_id_length: int = 0
    max_groups: int = 0


class InvalidRequestResponse(msgspec.Struct, kw_only=True):
    """Answer to a request that could not be read, as far as its sender could be made out."""

    api: str | None
    request_id: str
    client_id: str
    group_id: str | None
    error_code: Int16 = Errors.INVALID_REQUEST.value
    error: str = Errors.INVALID_REQUEST.name
    error_message: str | None = None


AnyResponse = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | DescribeGroupResponse
    | DeleteGroupResponse
    | FindCoordinatorResponse
    | ConsumerGroupHeartbeatResponse
    | ConsumerGroupDescribeResponse
    | TopicMetadataResponse
)


class KnownTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that members of a group name; 0 partitions: none is known, or it is gone."""

    name: str
    topic_id: str | None = None
    partitions: Int32 = 0


class KnownPattern(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern of members of a group, and the topics that it matches; None: nobody has resolved it yet.

    `user`: the one who may see these topics; None: the watcher of topics resolves it.
    """

    pattern: str
    user: str | None = None
    topics: list[str] | None = None


class PicturedMember(DescribedMember, frozen=True, kw_only=True):
    """A member in a `GroupPicture`."""

    session_timeout_ms: Ms
    rebalance_timeout_ms: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
    """Kafka takes any number, also one below 0."""
    member_epoch: int | msgspec.UnsetType = msgspec.UNSET
    """Told in groups of the consumer protocol, as of the picture. An epoch that advances alone makes none."""
    target_assignment: bytes | msgspec.UnsetType = msgspec.UNSET
    """The member's part of the target, in the same form as `member_assignment`. Told in the same groups."""


class GroupPicture(msgspec.Struct, frozen=True, kw_only=True):
    """The newest picture of a group, for `coordinator.groups` (compacted by group id).

    Of a group of the consumer protocol `generation_id` is the group epoch, and `protocol_name` the assignor.
    Subscriptions and assignments are in the form of Kafka's consumers (`consumer_protocol.py`).
    """

    group_id: str
    state: str
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str | None
    members: list[PicturedMember]
    state_timestamp_ms: int
    group_type: str = "classic"
    """"classic" or "consumer", the protocol that its members speak."""
    assignment_epoch: int | msgspec.UnsetType = msgspec.UNSET
    """The group epoch that the targets are of. This and the following are told of consumer groups."""
    metadata_version: int | msgspec.UnsetType = msgspec.UNSET
    """The version of what the group knows of its topics; a `topic_metadata` is based on it."""
    topics: list[KnownTopic] | msgspec.UnsetType = msgspec.UNSET
    """The topics that members name or that their patterns match, and what is known of each."""
    patterns: list[KnownPattern] | msgspec.UnsetType = msgspec.UNSET
    """The patterns of members; unset if there are none."""
