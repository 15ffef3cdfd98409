"""The requests of the contract (`docs/contract.md`), decoded strictly.

Names are those of Kafka's protocol messages in snake_case. Decoding checks the type and range of each field,
and refuses a field that is not in the contract. So nothing behind this module has to check again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

import msgspec

from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.responses import (
    DeleteGroupResponse,
    DescribeGroupResponse,
    FindCoordinatorResponse,
    HeartbeatResponse,
    Int32,
    Int64,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    ReplyTo,
    Response,
    SyncGroupResponse,
)

__all__ = [
    "MAX_REASON",
    "AnyRequest",
    "BeatingMember",
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
    "Protocol",
    "Request",
    "SyncGroupRequest",
]

Partition = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
# Empty would be one name for all that leave it empty, and each would throw out the one before.
InstanceId = Annotated[str, msgspec.Meta(min_length=1)] | None
TopicName = Annotated[str, msgspec.Meta(min_length=1)]
TopicId = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


MAX_REASON = 255
"""Characters of a reason: a client cuts it off here (KIP-800)."""

# Kafka has none here, so no client is out there that sends longer ones.
WhyChanged = Annotated[str, msgspec.Meta(max_length=MAX_REASON)] | None


class Protocol(msgspec.Struct, frozen=True, array_like=False, forbid_unknown_fields=True):
    """One protocol (assignor) that a member offers, with its subscription as opaque bytes."""

    name: str
    metadata: bytes


class MemberAssignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The leader's assignment for one member, as opaque bytes."""

    member_id: str
    assignment: bytes


class LeavingMember(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """One member of a `leave_group` request. `reason` is KIP-800's, for people to read."""

    member_id: str = ""
    group_instance_id: InstanceId = None
    reason: str | None = None


def _reason(reason: str | None) -> str | None:
    """A client cuts it off here; for those that do not it is done now. Empty is as good as none."""
    return reason[:MAX_REASON] if reason else None


class Request(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag_field="api",
    # Most of the log is heartbeats: what says nothing takes no room in it.
    omit_defaults=True,
):
    """The fields of all requests. `api_version` None means the newest."""

    OLDEST_VERSION: ClassVar[int] = 0
    NEWEST_VERSION: ClassVar[int]
    """Lowest and highest `api_version` that is understood; all between them are."""
    STATIC_VERSION: ClassVar[int]
    """Lowest `api_version` in which a `group_instance_id` is given or told (KIP-345)."""
    IS_READING: ClassVar[bool] = False
    """Whether it only asks, so that it may be put off (`max.read.bytes`)."""
    NEEDS_GROUP_ID: ClassVar[bool] = False
    """Whether the group without a name is refused: it can have offsets, but no members."""
    RESPONSE: ClassVar[type[Response]]
    """The answer to it."""

    request_id: str
    client_id: str
    group_id: str
    api_version: Int32 | None = None
    client_host: str = ""
    reply_partition: Partition | None = None
    principal: str | msgspec.UnsetType | None = msgspec.UNSET
    """The sender's user name at the brokers, if the writer of the request knows it. Unset costs no bytes."""

    @property
    def version(self) -> int:
        """The version that decides the behaviour."""
        return self.NEWEST_VERSION if self.api_version is None else self.api_version

    @property
    def reply_to(self) -> ReplyTo:
        """The partition that the answer goes to."""
        return ReplyTo(self.request_id, self.client_id, self.reply_partition, self.version)

    @property
    def member_named(self) -> str:
        """The member that it is about; empty if it is about none, or several."""
        return ""

    @property
    def instance_ids(self) -> dict[str, str]:
        """The instance ids in it, by the paths of their fields."""
        return {}

    @property
    def names(self) -> dict[str, str]:
        """Ids and names that not all requests have, by the paths of their fields."""
        return self.instance_ids

    @property
    def partitions_named(self) -> int:
        """The number of partitions that it is about. Each is answered."""
        return 0

    def precheck(self) -> tuple[Errors, str | None]:
        """The error that refuses it before any look at the group, if one does."""
        oldest, newest = self.OLDEST_VERSION, self.NEWEST_VERSION
        if not oldest <= self.version <= newest:
            message = f"versions {oldest} to {newest} are supported - at `$.api_version`"
            return Errors.UNSUPPORTED_VERSION, message
        if (lacking := self.lacks()) is not None:
            return lacking
        if self.NEEDS_GROUP_ID and not self.group_id:
            return Errors.INVALID_GROUP_ID, "group_id must not be empty"
        if self.instance_ids and self.version < self.STATIC_VERSION:
            message = f"version {self.STATIC_VERSION} is the first with a group_instance_id"
            return Errors.UNSUPPORTED_VERSION, f"{message} - at `$.group_instance_id`"
        return Errors.NONE, None

    def lacks(self) -> tuple[Errors, str] | None:
        """The error if it lacks a field that its version requires."""
        return None

    def refused(self, error: Errors, message: str | None) -> Response:
        """The answer if the request is refused unseen."""
        return self.RESPONSE.to(self.reply_to, self.group_id, error, message)


class _MemberRequest(Request, frozen=True, kw_only=True):
    """A request of one member."""

    member_id: str = ""
    group_instance_id: InstanceId = None

    @property
    def member_named(self) -> str:
        """The member."""
        return self.member_id

    @property
    def instance_ids(self) -> dict[str, str]:
        """The member's, if it has one."""
        return _instance(self.group_instance_id)


class JoinGroupRequest(_MemberRequest, frozen=True, tag="join_group"):
    """JoinGroup (api key 11). Times in ms; an empty `member_id` asks for one."""

    RESPONSE: ClassVar[type[Response]] = JoinGroupResponse
    NEEDS_GROUP_ID: ClassVar[bool] = True
    NEWEST_VERSION: ClassVar[int] = 9
    STATIC_VERSION: ClassVar[int] = 5
    REASON_VERSION: ClassVar[int] = 8

    session_timeout_ms: Int32
    protocol_type: str
    protocols: list[Protocol]
    rebalance_timeout_ms: Int32 | None = None
    reason: str | None = None

    @property
    def names(self) -> dict[str, str]:
        """Its instance id, and what it offers."""
        offered = {f"protocols[{i}].name": each.name for i, each in enumerate(self.protocols)}
        return {**self.instance_ids, "protocol_type": self.protocol_type, **offered}

    @property
    def client_reason(self) -> str | None:
        """The reason in the client's own words, if it gives one (KIP-800)."""
        return _reason(self.reason) if self.version >= self.REASON_VERSION else None

    def refused(self, error: Errors, message: str | None) -> Response:
        """The answer if the request is refused unseen; it echoes the member id."""
        return JoinGroupResponse.to(self.reply_to, self.group_id, error, message, member_id=self.member_id)

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """The session timeout where the version has no rebalance timeout (v0), or none was given."""
        if self.version == 0 or self.rebalance_timeout_ms is None:
            return self.session_timeout_ms
        return self.rebalance_timeout_ms


class SyncGroupRequest(_MemberRequest, frozen=True, tag="sync_group"):
    """SyncGroup (api key 14). Only the leader's `assignments` are read."""

    RESPONSE: ClassVar[type[Response]] = SyncGroupResponse
    NEEDS_GROUP_ID: ClassVar[bool] = True
    NEWEST_VERSION: ClassVar[int] = 5
    STATIC_VERSION: ClassVar[int] = 3
    PROTOCOL_VERSION: ClassVar[int] = 5

    generation_id: Int32
    member_id: str
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[MemberAssignment] = []

    @property
    def names_protocol(self) -> bool:
        """Whether the version has `protocol_type` and `protocol_name`, and requires them (KIP-559)."""
        return self.version >= self.PROTOCOL_VERSION

    def lacks(self) -> tuple[Errors, str] | None:
        """The error if it does not name its protocol although the version requires it."""
        if self.names_protocol and None in (self.protocol_type, self.protocol_name):
            message = "protocol_type and protocol_name must be given since version 5"
            return Errors.INCONSISTENT_GROUP_PROTOCOL, message
        return None


class BeatingMember(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """One member of a `heartbeat` request of several."""

    generation_id: Int32
    member_id: str
    group_instance_id: InstanceId = None


class HeartbeatRequest(Request, frozen=True, tag="heartbeat"):
    """Heartbeat (api key 12) of one member, or, which Kafka has not, of `members` that share a program."""

    RESPONSE: ClassVar[type[Response]] = HeartbeatResponse
    NEEDS_GROUP_ID: ClassVar[bool] = True
    NEWEST_VERSION: ClassVar[int] = 4
    STATIC_VERSION: ClassVar[int] = 3

    generation_id: Int32 | msgspec.UnsetType = msgspec.UNSET
    member_id: str | msgspec.UnsetType = msgspec.UNSET
    group_instance_id: InstanceId = None
    # Bounded because each entry, however short, is echoed at length.
    members: Annotated[list[BeatingMember], msgspec.Meta(max_length=10_000)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    quiet: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether an answer is wanted only if it tells of an error, its own or one of `members`."""

    def __post_init__(self) -> None:
        """Refuse what names a member in both ways, or in none; msgspec makes that a `ValidationError`."""
        own = (self.generation_id, self.member_id, self.group_instance_id)
        if self.members is not msgspec.UNSET:
            if own != (msgspec.UNSET, msgspec.UNSET, None):
                message = "Each of `members` has a `generation_id` and a `member_id` of its own"
                raise ValueError(message)
        elif msgspec.UNSET in own:
            missing = "generation_id" if self.generation_id is msgspec.UNSET else "member_id"
            message = f"Object missing required field `{missing}`"
            raise ValueError(message)

    @property
    def beats(self) -> list[BeatingMember]:
        """The members that it is of, one or several."""
        if self.members is not msgspec.UNSET:
            return self.members
        return [
            BeatingMember(
                # Without `members` both are given.
                generation_id=self.generation_id,  # type: ignore[arg-type]
                member_id=self.member_id,  # type: ignore[arg-type]
                group_instance_id=self.group_instance_id,
            )
        ]

    @property
    def member_named(self) -> str:
        """The member, if it is of one."""
        return self.member_id or ""

    @property
    def instance_ids(self) -> dict[str, str]:
        """The instance ids of the members that have one."""
        if self.members is not msgspec.UNSET:
            return _instances_of(self.members)
        return _instance(self.group_instance_id)


class LeaveGroupRequest(Request, frozen=True, tag="leave_group"):
    """LeaveGroup (api key 13)."""

    RESPONSE: ClassVar[type[Response]] = LeaveGroupResponse
    NEEDS_GROUP_ID: ClassVar[bool] = True
    NEWEST_VERSION: ClassVar[int] = 5
    STATIC_VERSION: ClassVar[int] = 3
    REASON_VERSION: ClassVar[int] = 5

    # Bounded because each entry, however short, is echoed at length.
    members: Annotated[list[LeavingMember], msgspec.Meta(max_length=10_000)]

    @property
    def member_named(self) -> str:
        """The member, if it is one that leaves."""
        return self.members[0].member_id if len(self.members) == 1 else ""

    @property
    def instance_ids(self) -> dict[str, str]:
        """The instance ids of the members that have one."""
        return _instances_of(self.members)

    def client_reason(self, leaving: LeavingMember) -> str | None:
        """The reason of `leaving` in its own words, if it gives one (KIP-800)."""
        return _reason(leaving.reason) if self.version >= self.REASON_VERSION else None


class DescribeGroupRequest(Request, frozen=True, tag="describe_group"):
    """DescribeGroups (api key 15), of the one group that the record is about."""

    IS_READING: ClassVar[bool] = True
    RESPONSE: ClassVar[type[Response]] = DescribeGroupResponse
    NEWEST_VERSION: ClassVar[int] = 6
    STATIC_VERSION: ClassVar[int] = 4


class OffsetCommitPartition(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """The offset of one partition: `committed_offset` is the next to be read."""

    partition_index: Partition
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    committed_metadata: str | None = None


class OffsetCommitTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The partitions of one topic in an `offset_commit`."""

    name: TopicName
    partitions: list[OffsetCommitPartition]
    topic_id: TopicId | msgspec.UnsetType = msgspec.UNSET
    """Kafka's id of the topic, which a topic of the same name that is made later does not have."""


class OffsetCommitRequest(_MemberRequest, frozen=True, tag="offset_commit"):
    """OffsetCommit (api key 8). Without a generation it comes from no member: from a tool, for example."""

    RESPONSE: ClassVar[type[Response]] = OffsetCommitResponse
    OLDEST_VERSION: ClassVar[int] = 2
    NEWEST_VERSION: ClassVar[int] = 9
    STATIC_VERSION: ClassVar[int] = 7
    LEADER_EPOCH_VERSION: ClassVar[int] = 6
    LAST_RETENTION_VERSION: ClassVar[int] = 4
    GROUP_ID_NOT_FOUND_VERSION: ClassVar[int] = 9

    topics: list[OffsetCommitTopic]
    generation_id: Int32 = -1
    retention_time_ms: Int64 = -1
    """How long to keep these offsets, up to version 4; -1: as long as the coordinator keeps all."""
    reason: WhyChanged = None
    """The sender's words for people to read, as when somebody resets offsets."""

    @property
    def names(self) -> dict[str, str]:
        """The member's instance id, and the topics."""
        return {**self.instance_ids, **_topics(self.topics)}

    @property
    def partitions_named(self) -> int:
        """The number of partitions of all topics."""
        return sum(len(topic.partitions) for topic in self.topics)


class OffsetFetchTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The partitions of one topic in an `offset_fetch`."""

    name: TopicName
    partition_indexes: list[Partition]


class OffsetFetchRequest(Request, frozen=True, tag="offset_fetch"):
    """OffsetFetch (api key 9). `topics` None asks for all.

    `require_stable` (KIP-447) would wait for transactions; there are none, so every offset is stable.
    """

    IS_READING: ClassVar[bool] = True
    RESPONSE: ClassVar[type[Response]] = OffsetFetchResponse
    OLDEST_VERSION: ClassVar[int] = 1
    NEWEST_VERSION: ClassVar[int] = 9
    ALL_TOPICS_VERSION: ClassVar[int] = 2
    LEADER_EPOCH_VERSION: ClassVar[int] = 5

    topics: list[OffsetFetchTopic] | None = None
    require_stable: bool = False

    @property
    def names(self) -> dict[str, str]:
        """The topics."""
        return _topics(self.topics or ())

    @property
    def partitions_named(self) -> int:
        """The number of partitions of all topics that are named."""
        return sum(len(topic.partition_indexes) for topic in self.topics or ())

    def lacks(self) -> tuple[Errors, str] | None:
        """The error if it names no topics although its version cannot ask for all."""
        if self.topics is None and self.version < self.ALL_TOPICS_VERSION:
            message = f"version {self.ALL_TOPICS_VERSION} is the first that can ask for all topics"
            return Errors.UNSUPPORTED_VERSION, f"{message} - at `$.topics`"
        return None


class OffsetDeletePartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One partition in an `offset_delete`."""

    partition_index: Partition


class OffsetDeleteTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The partitions of one topic in an `offset_delete`."""

    name: TopicName
    partitions: list[OffsetDeletePartition]


class OffsetDeleteRequest(Request, frozen=True, tag="offset_delete"):
    """OffsetDelete (api key 47)."""

    RESPONSE: ClassVar[type[Response]] = OffsetDeleteResponse
    NEEDS_GROUP_ID: ClassVar[bool] = True
    NEWEST_VERSION: ClassVar[int] = 0

    topics: list[OffsetDeleteTopic]
    reason: WhyChanged = None

    @property
    def names(self) -> dict[str, str]:
        """The topics."""
        return _topics(self.topics)

    @property
    def partitions_named(self) -> int:
        """The number of partitions of all topics."""
        return sum(len(topic.partitions) for topic in self.topics)


class DeleteGroupRequest(Request, frozen=True, tag="delete_group"):
    """DeleteGroups (api key 42), of the one group that the record is about."""

    RESPONSE: ClassVar[type[Response]] = DeleteGroupResponse
    NEWEST_VERSION: ClassVar[int] = 2

    reason: WhyChanged = None


class FindCoordinatorRequest(Request, frozen=True, tag="find_coordinator"):
    """FindCoordinator (api key 10): which partitions a group's requests and its state are in."""

    RESPONSE: ClassVar[type[Response]] = FindCoordinatorResponse
    NEWEST_VERSION: ClassVar[int] = 6


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
)


def _instance(instance_id: str | None) -> dict[str, str]:
    return {} if instance_id is None else {"group_instance_id": instance_id}


def _instances_of(members: Iterable[LeavingMember | BeatingMember]) -> dict[str, str]:
    return {
        f"members[{i}].group_instance_id": each.group_instance_id
        for i, each in enumerate(members)
        if each.group_instance_id is not None
    }


def _topics(
    topics: Iterable[OffsetCommitTopic | OffsetDeleteTopic | OffsetFetchTopic],
) -> dict[str, str]:
    return {f"topics[{i}].name": topic.name for i, topic in enumerate(topics)}
