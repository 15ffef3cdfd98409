"""The requests about offsets, and about groups of any kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests.base import (
    MemberRequest,
    Partition,
    Request,
    TopicId,
    TopicName,
    WhyChanged,
)
from group_coordinator.coordinator_state.responses import (
    DeleteGroupResponse,
    FindCoordinatorResponse,
    Int32,
    Int64,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    Response,
)


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


class OffsetCommitRequest(MemberRequest, frozen=True, tag="offset_commit"):
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
    MEMBER_VERSION: ClassVar[int] = 9

    topics: list[OffsetFetchTopic] | None = None
    require_stable: bool = False
    member_id: str | None = None
    """Null is nobody's. Like its epoch it is looked at in groups of the consumer protocol."""
    member_epoch: Int32 = -1

    @property
    def asker(self) -> tuple[str | None, int]:
        """The member that asks, and its epoch, as far as this version says them; nobody otherwise."""
        return (self.member_id, self.member_epoch) if self.version >= self.MEMBER_VERSION else (None, -1)

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


def _topics(
    topics: Iterable[OffsetCommitTopic | OffsetDeleteTopic | OffsetFetchTopic],
) -> dict[str, str]:
    return {f"topics[{i}].name": topic.name for i, topic in enumerate(topics)}
