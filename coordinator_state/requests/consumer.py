"""The requests of the consumer protocol's groups (KIP-848)."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests.base import (
    InstanceId,
    MemberRequest,
    Partition,
    Request,
    TopicId,
    TopicName,
    instance,
)
from group_coordinator.coordinator_state.responses import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    Int32,
    Int64,
    Response,
    TopicMetadataResponse,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
AWAY_EPOCH = -2
"""A static member leaves, and may come back under its instance id before its session ends."""


class OwnedTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Partitions of one topic that a member owns. The id says which topic; without an id the name does."""

    partitions: list[Partition]
    topic_id: TopicId | None = None
    name: TopicName | None = None

    def __post_init__(self) -> None:
        """Refuse what names no topic; msgspec makes that a `ValidationError`."""
        if self.topic_id is None and self.name is None:
            message = "Object missing required field `topic_id`, or `name`"
            raise ValueError(message)


class TopicFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A topic as a broker has it. Without an id it is a list of units of work, which no broker knows."""

    name: TopicName
    partitions: Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)]
    topic_id: TopicId | None = None


class Resolved(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The topics that a pattern matches, as its sender has found out.

    `user`: the one who may see these topics, and maybe not all others. Members with the same pattern and the
    same user share what it matches.
    """

    topics: list[TopicName]
    user: str = ""


class PatternTopics(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """The topics that a pattern of members matches, as `topic_metadata` says it; `user` as in `Resolved`.

    `user` None: of members that have left it to the watcher.
    """

    pattern: str
    topics: list[TopicName]
    user: str | None = None


class AliveMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One member of a `consumer_group_heartbeat` of several: all that it says is that it is alive."""

    member_id: str
    member_epoch: Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)]
    group_instance_id: InstanceId = None


class ConsumerGroupHeartbeatRequest(MemberRequest, frozen=True, tag="consumer_group_heartbeat"):
    """ConsumerGroupHeartbeat (api key 68) of one member, or, which Kafka has not, of `members` of a program.

    `member_epoch` 0 joins, -1 leaves, -2 leaves for a while. A field that is not given is as it was.
    `topics`, which Kafka has not either: what its sender knows of the topics that it names or that its
    pattern matches. `resolved`: the topics that its pattern matches.
    """

    RESPONSE: ClassVar[type[Response]] = ConsumerGroupHeartbeatResponse
    NEWEST_VERSION: ClassVar[int] = 1
    STATIC_VERSION: ClassVar[int] = 0
    REGEX_VERSION: ClassVar[int] = 1
    CLIENT_ID_VERSION: ClassVar[int] = 1
    """From this version on the client makes the member id (KIP-1082)."""
    MAX_PATTERN: ClassVar[int] = 10_000
    """Bytes of a pattern in UTF-8. Kafka has no limit here, but that of a request."""

    member_epoch: Int32 | msgspec.UnsetType = msgspec.UNSET
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[OwnedTopic] | None = None
    topics: list[TopicFacts] = msgspec.field(default_factory=list)
    resolved: Resolved | None = None
    # Bounded because each entry, however short, may be answered at length.
    members: Annotated[list[AliveMember], msgspec.Meta(max_length=10_000)] | msgspec.UnsetType = msgspec.UNSET
    quiet: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether an answer is wanted only if there is news."""

    def __post_init__(self) -> None:
        """Refuse what names a member in both ways, or in none; msgspec makes that a `ValidationError`."""
        if (self.members is msgspec.UNSET) == (self.member_epoch is msgspec.UNSET):
            message = "Object needs one of the fields `member_epoch` and `members`"
            raise ValueError(message)

    @property
    def epoch(self) -> int:
        """The member's epoch; for a heartbeat of several, none that a member may have."""
        return self.AWAY_FROM_ALL if self.member_epoch is msgspec.UNSET else self.member_epoch

    AWAY_FROM_ALL: ClassVar[int] = -INT32_MAX - 1

    @classmethod
    def refuses_pattern(cls, pattern: str) -> str | None:
        """The reason why a pattern is too long to be taken; None if it is not."""
        is_too_long = len(pattern.encode()) > cls.MAX_PATTERN
        return f"a pattern has {cls.MAX_PATTERN} bytes at most" if is_too_long else None

    @property
    def is_bare(self) -> bool:
        """Whether all that it says is that its member is alive."""
        return (
            self.epoch > 0
            and self.topic_partitions is None
            and self.subscribed_topic_names is None
            and self.subscribed_topic_regex is None
            and self.server_assignor is None
            and self.rack_id is None
            and self.rebalance_timeout_ms == -1
            and not self.topics
        )

    @property
    def is_full(self) -> bool:
        """Whether it says all that a member knows, as after an error. Its answer does so as well."""
        names = self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        return self.rebalance_timeout_ms != -1 and names and self.topic_partitions is not None

    @property
    def names(self) -> dict[str, str]:
        """Ids and names in it, by the paths of their fields."""
        topics = enumerate(self.subscribed_topic_names or ())
        given = {f"subscribed_topic_names[{i}]": name for i, name in topics}
        given |= {f"topics[{i}].name": each.name for i, each in enumerate(self.topics)}
        if self.resolved is not None:
            given["resolved.user"] = self.resolved.user
            given |= {f"resolved.topics[{i}]": name for i, name in enumerate(self.resolved.topics)}
        given["rack_id"], given["server_assignor"] = self.rack_id or "", self.server_assignor or ""
        if self.members is not msgspec.UNSET:
            for i, each in enumerate(self.members):
                given |= {f"members[{i}].{path}": it for path, it in instance(each.group_instance_id).items()}
        return {"member_id": self.member_id, **self.instance_ids, **given}

    def lacks(self) -> tuple[Errors, str] | None:
        """The first rule of Kafka's that it breaks (throwIfConsumerGroupHeartbeatRequestIsInvalid)."""
        if self.members is not msgspec.UNSET:
            return None if self.group_id.strip() else (Errors.INVALID_REQUEST, "GroupId can't be empty.")
        broken = self._broken()
        return None if broken is None else (Errors.INVALID_REQUEST, broken)

    def _broken(self) -> str | None:
        epoch = self.epoch
        needs_id = self.version >= self.CLIENT_ID_VERSION or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
        if (name := self._empty(needs_id=needs_id)) is not None:
            return f"{name} can't be empty."
        if epoch == JOIN_EPOCH:
            return self._lacks_to_join()
        if epoch == AWAY_EPOCH and self.group_instance_id is None:
            return "InstanceId can't be null."
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2." if epoch < -2 else None  # noqa: PLR2004

    def _empty(self, *, needs_id: bool) -> str | None:
        """Kafka's name of a field that is empty and must not be."""
        # One after the other, since each heartbeat comes here.
        if needs_id and not self.member_id.strip():
            return "MemberId"
        if not self.group_id.strip():
            return "GroupId"
        if self.group_instance_id is not None and not self.group_instance_id.strip():
            return "InstanceId"
        return "RackId" if self.rack_id is not None and not self.rack_id.strip() else None

    def _lacks_to_join(self) -> str | None:
        if self.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if self.topic_partitions is None or self.topic_partitions:
            return "TopicPartitions must be empty when (re-)joining."
        has_regex = self.version >= self.REGEX_VERSION and self.subscribed_topic_regex is not None
        if self.subscribed_topic_names is None and not has_regex:
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        return None


class ConsumerGroupDescribeRequest(Request, frozen=True, tag="consumer_group_describe"):
    """ConsumerGroupDescribe (api key 69), of the one group that the record is about."""

    IS_READING: ClassVar[bool] = True
    RESPONSE: ClassVar[type[Response]] = ConsumerGroupDescribeResponse
    NEEDS_GROUP_ID: ClassVar[bool] = True
    NEWEST_VERSION: ClassVar[int] = 1


class TopicMetadataRequest(Request, frozen=True, tag="topic_metadata"):
    """The brokers' word on topics that a consumer group names, from a watcher outside. It is not answered.

    It counts only if `based_on` is the group's `metadata_version`. `gone`: topics that there are no more.
    `patterns`: what patterns of its members match now.
    """

    RESPONSE: ClassVar[type[Response]] = TopicMetadataResponse
    NEWEST_VERSION: ClassVar[int] = 0

    based_on: Int64
    topics: list[TopicFacts] = msgspec.field(default_factory=list)
    gone: list[TopicName] = msgspec.field(default_factory=list)
    patterns: list[PatternTopics] = msgspec.field(default_factory=list)

    @property
    def names(self) -> dict[str, str]:
        """The topics, and the users of patterns."""
        given = {f"topics[{i}].name": each.name for i, each in enumerate(self.topics)}
        given |= {f"gone[{i}]": name for i, name in enumerate(self.gone)}
        for i, each in enumerate(self.patterns):
            given[f"patterns[{i}].user"] = each.user or ""
            given |= {f"patterns[{i}].topics[{j}]": name for j, name in enumerate(each.topics)}
        return given
