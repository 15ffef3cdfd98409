"""Events: the records of `coordinator.events`, which are the history of a group.

An event is a fact about one decision. Its id names the record or the deadline that caused the decision. So a
batch that runs again writes the same events under the same ids.

Events outlive the program that wrote them. New fields have defaults, which stand for "not told".
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import msgspec

from group_coordinator.coordinator_state.responses import KnownPattern, KnownTopic


class RebalanceCause(StrEnum):
    """The cause of a rebalance; the `reason` names the member."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    MEMBER_REPLACED = "member_replaced"
    """A static member restarted, and the group could not go on as it was."""
    SESSION_EXPIRED = "session_expired"
    NOT_SYNCED = "not_synced"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    LEADER_REJOINED = "leader_rejoined"
    """A leader joins again when the work that it divides has changed."""
    NOT_REVOKED = "not_revoked"
    """A member did not give up in time what another one is to have (consumer protocol)."""
    TOPICS_CHANGED = "topics_changed"
    """A topic came, grew, or is gone (consumer protocol)."""
    UNKNOWN = "unknown"
    """The group was watched at the brokers, whose log does not say it. This coordinator always knows."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """The fields of all events. `at_ms` is the log's time of the cause, never a wall clock's.

    `request_id` and `principal` are those of the request that was the cause; None and unset if a deadline
    was. `Turn.emit` fills in all of these. A rule gives only the fields of its own event.
    """

    IS_PICTURED: ClassVar[bool] = True
    """Whether the event changes the group's picture."""

    event_id: str = ""
    at_ms: int = 0
    group_id: str = ""
    generation_id: int = 0
    request_id: str | None = None
    principal: str | msgspec.UnsetType = msgspec.UNSET
    """Unset also if the request named none."""


class GroupCreated(Event, frozen=True, tag="group_created"):
    """The first join of a group id that was not known."""


class StateChanged(Event, frozen=True, kw_only=True, tag="state_changed", rename={"from_": "from"}):
    """The group moved along one arrow of the state diagram; `reason` is for people.

    When a join phase begins, `cause` says why. When the group is Stable or Empty again, `cause` is that of
    the first one since it was, and `rebalance_ms` how long ago that began. `from_` is empty if nothing is
    known of the time before.
    """

    from_: str
    to: str
    reason: str
    cause: RebalanceCause | None = None
    rebalance_ms: int | None = None


class MemberAdded(Event, frozen=True, kw_only=True, tag="member_added"):
    """A member joined for the first time, `join_phase_ms` after the join phase began.

    0: its join began it; None: that is not known. `client_reason`: why, in its own words (KIP-800).
    """

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    join_phase_ms: int | None = 0
    client_reason: str | None = None


class MemberRejoined(Event, frozen=True, kw_only=True, tag="member_rejoined"):
    """A member has joined again, and waits for the others `join_phase_ms` after the join phase began.

    0: its join began it. `client_reason`: why, in its own words (KIP-800).
    """

    IS_PICTURED: ClassVar[bool] = False

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    join_phase_ms: int = 0
    client_reason: str | None = None


class MemberRemoved(Event, frozen=True, kw_only=True, tag="member_removed"):
    """A member was removed.

    `reason` is one of left, session_expired, not_rejoined, not_synced, group_full, not_revoked.

    It is unknown of a member at the brokers. `client_reason`: why it left, in its own words (KIP-800).
    """

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    reason: str
    client_reason: str | None = None
    session_timeout_ms: int | msgspec.UnsetType = msgspec.UNSET
    """Told if the reason is unknown."""
    last_commit_ms: int | msgspec.UnsetType = msgspec.UNSET
    """How long before, an offset of a partition that it owned was last committed. Told if the reason is
    unknown, and there is such an offset."""


class SessionNearlyExpired(Event, frozen=True, kw_only=True, tag="session_nearly_expired"):
    """A member showed a sign of life when less than a fifth of its session was left.

    `remaining_ms`: how much was left. Time in which no coordinator could hear the member does not count. A
    member is told of at most once in ten of its sessions. `request_id`: the sign, which is a heartbeat, join,
    sync or commit.
    """

    IS_PICTURED: ClassVar[bool] = False

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    session_timeout_ms: int
    remaining_ms: int


class MemberFenced(Event, frozen=True, kw_only=True, tag="member_fenced"):
    """A static member restarted: the program at `client_host` goes on as `replaced_by`.

    A program that still uses the old `member_id` gets FENCED_INSTANCE_ID.
    """

    member_id: str
    group_instance_id: str
    replaced_by: str
    client_id: str
    client_host: str
    client_reason: str | None


class GenerationCompleted(Event, frozen=True, kw_only=True, tag="generation_completed"):
    """A join phase ended with members: the new generation, its leader and its members (member ids)."""

    protocol_type: str = ""
    protocol_name: str
    leader: str
    members: list[str]


class GenerationWrapped(Event, frozen=True, tag="generation_wrapped"):
    """The generation after the largest int32 is 1."""


class RebalancePostponed(Event, frozen=True, kw_only=True, tag="rebalance_postponed"):
    """No member has joined, and all members are static: the group waits for them until `until_ms`."""

    until_ms: int


class MemberAssigned(msgspec.Struct, frozen=True):
    """The assignment of one member, as the bytes that the leader sent."""

    member_id: str
    assignment: bytes


class AssignmentPropagated(Event, frozen=True, kw_only=True, tag="assignment_propagated"):
    """The leader has sent the assignments of this generation."""

    protocol_type: str = ""
    assignments: list[MemberAssigned]


class GroupTypeChanged(Event, frozen=True, kw_only=True, tag="group_type_changed", rename={"from_": "from"}):
    """The group is of the other protocol from now on. It was Empty, and keeps its offsets.

    `from_` and `to` are "classic" or "consumer".
    """

    from_: str
    to: str


class TopicsChanged(Event, frozen=True, kw_only=True, tag="topics_changed"):
    """The group knows something new of topics that its members name (consumer protocol).

    `topics` are those that came or grew, `gone` those that there are no more, and `patterns` those that match
    other topics than before.
    """

    metadata_version: int
    topics: list[KnownTopic] = []
    gone: list[str] = []
    patterns: list[KnownPattern] | msgspec.UnsetType = msgspec.UNSET


class SubscriptionChanged(Event, frozen=True, kw_only=True, tag="subscription_changed"):
    """A member of the consumer protocol reads these topics from now on, or names another assignor."""

    member_id: str
    group_instance_id: str | None = None
    topics: list[str]
    """Those that it names, and those that its pattern matches."""
    server_assignor: str | None = None
    subscribed_topic_regex: str | msgspec.UnsetType = msgspec.UNSET
    """Its pattern; unset if it has none."""


class TargetAssigned(Event, frozen=True, kw_only=True, tag="target_assigned"):
    """The assignor has divided the work again (consumer protocol). Members come to their targets one by one.

    `assignments` are those that have changed, in the form of Kafka's consumers.
    """

    assignment_epoch: int
    protocol_name: str
    assignments: list[MemberAssigned]


class MemberReconciled(Event, frozen=True, kw_only=True, tag="member_reconciled"):
    """A member of the consumer protocol has other partitions. An epoch that advances alone is no event.

    `assignment` is all that it may still hold, `revoking` the part of it that it is to give up. Both are in
    the form of Kafka's consumers.
    """

    member_id: str
    group_instance_id: str | None = None
    member_epoch: int
    assignment: bytes
    revoking: bytes = b""


class MemberAway(Event, frozen=True, kw_only=True, tag="member_away"):
    """A static member of the consumer protocol left for a while. It keeps its own until its session ends."""

    member_id: str
    group_instance_id: str
    client_id: str


class CommittedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of an `OffsetsCommitted`."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str


class OffsetsOfTopic(msgspec.Struct, frozen=True):
    """The committed offsets of one topic. `topic_id`: as the commit gave it; a topic may be made again."""

    name: str
    partitions: list[CommittedPartition]
    topic_id: str | msgspec.UnsetType = msgspec.UNSET


class PartitionsOfTopic(msgspec.Struct, frozen=True):
    """The partitions of one topic whose offsets were deleted."""

    name: str
    partition_indexes: list[int]


class OffsetsCommitted(Event, frozen=True, kw_only=True, tag="offsets_committed"):
    """Offsets were committed by `member_id`; it is empty for a tool, which is no member.

    It is None if the committer is not known, and may be a member. `client_reason`: why, in its own words.
    """

    IS_PICTURED: ClassVar[bool] = False

    member_id: str | None
    client_id: str
    topics: list[OffsetsOfTopic]
    client_reason: str | msgspec.UnsetType = msgspec.UNSET


class OffsetsDeleted(Event, frozen=True, kw_only=True, tag="offsets_deleted"):
    """Offsets were deleted, alone or with their group.

    `cause` is "unknown" if they may have expired as well, or have gone with their topic. `client_reason`:
    why, in the words of the client that asked for it.
    """

    IS_PICTURED: ClassVar[bool] = False

    topics: list[PartitionsOfTopic]
    cause: str | msgspec.UnsetType = msgspec.UNSET
    client_reason: str | msgspec.UnsetType = msgspec.UNSET


class OffsetsExpired(Event, frozen=True, kw_only=True, tag="offsets_expired"):
    """Offsets expired after `offsets.retention.minutes` without use."""

    IS_PICTURED: ClassVar[bool] = False

    topics: list[PartitionsOfTopic]


class GroupDeleted(Event, frozen=True, kw_only=True, tag="group_deleted"):
    """The group was deleted. A new group may have the same id."""


class RequestLate(Event, frozen=True, kw_only=True, tag="request_late"):
    """A request was read after a deadline, or the end of an outage, that is later than its append time.

    It counts as of `at_ms`. The log does not show this order, so a replay has to know of it. `partition` and
    `offset`: the place of the request. `appended_ms`: its append time, as its broker's clock has it.
    """

    IS_PICTURED: ClassVar[bool] = False

    partition: int
    offset: int
    appended_ms: int


class ClockCorrected(Event, frozen=True, kw_only=True, tag="clock_corrected"):
    """The append time of a request cannot be right, or is right again (`clocks.py`).

    From this request on, append times of its partition count `shift_ms` later, for this group. The
    `skipped_ms` before `at_ms` count for no deadline. `partition`, `offset` and `appended_ms` as in
    `RequestLate`.
    """

    IS_PICTURED: ClassVar[bool] = False

    partition: int
    offset: int
    appended_ms: int
    shift_ms: int
    skipped_ms: int


# A reader has to know them all, also those that it does nothing with.
AnyEvent = (
    GroupCreated
    | StateChanged
    | MemberAdded
    | MemberRejoined
    | MemberRemoved
    | SessionNearlyExpired
    | MemberFenced
    | GenerationCompleted
    | GenerationWrapped
    | RebalancePostponed
    | AssignmentPropagated
    | OffsetsCommitted
    | OffsetsDeleted
    | OffsetsExpired
    | GroupDeleted
    | RequestLate
    | ClockCorrected
    | GroupTypeChanged
    | TopicsChanged
    | SubscriptionChanged
    | TargetAssigned
    | MemberReconciled
    | MemberAway
)
