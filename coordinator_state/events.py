"""What happened to a group: the records of `coordinator.events`, from which its history can be told.

An event is a fact about one decision. Its id names the record or the deadline that caused the decision,
so that a batch that is run again writes the same events under the same ids.

Events outlive the program that wrote them. New fields have defaults, which stand for "not told".
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import msgspec

__all__ = [
    "AnyEvent",
    "AssignmentPropagated",
    "CommittedPartition",
    "Event",
    "GenerationCompleted",
    "GenerationWrapped",
    "GroupCreated",
    "GroupDeleted",
    "MemberAdded",
    "MemberAssigned",
    "MemberFenced",
    "MemberRejoined",
    "MemberRemoved",
    "OffsetsCommitted",
    "OffsetsDeleted",
    "OffsetsExpired",
    "OffsetsOfTopic",
    "PartitionsOfTopic",
    "RebalanceCause",
    "RebalancePostponed",
    "StateChanged",
]


class RebalanceCause(StrEnum):
    """What makes a group rebalance; who did is in the `reason`."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    MEMBER_REPLACED = "member_replaced"
    """A static member was started again, and the group could not go on as it was."""
    SESSION_EXPIRED = "session_expired"
    NOT_SYNCED = "not_synced"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    LEADER_REJOINED = "leader_rejoined"
    """Leaders do so when what they divide has changed."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """What all events have in common. `at_ms` is the log's time of the cause, never a wall clock's.

    `request_id`: of the request that was the cause; None if a deadline was. `Turn.emit` fills all of these
    in: a rule says only what happened.
    """

    IS_PICTURED: ClassVar[bool] = True
    """Whether what happened can be seen in the group's picture."""

    event_id: str = ""
    at_ms: int = 0
    group_id: str = ""
    generation_id: int = 0
    request_id: str | None = None


class GroupCreated(Event, frozen=True, tag="group_created"):
    """The first join of a group id that was not known."""


class StateChanged(Event, frozen=True, kw_only=True, tag="state_changed", rename={"from_": "from"}):
    """The group moved along one arrow of the state diagram; `reason` is for people.

    When a join phase begins, `cause` says why. When the group is Stable or Empty again, `cause` is that of
    the first one since it was, and `rebalance_ms` how long ago that began.
    """

    from_: str
    to: str
    reason: str
    cause: RebalanceCause | None = None
    rebalance_ms: int | None = None


class MemberAdded(Event, frozen=True, kw_only=True, tag="member_added"):
    """A member joined for the first time, `join_phase_ms` after the join phase began.

    0: its join began it. `client_reason`: why, in its own words (KIP-800).
    """

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    join_phase_ms: int = 0
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
    """A member is out. `reason` is one of left, session_expired, not_rejoined, not_synced, group_full.

    `client_reason`: why it left, in its own words (KIP-800).
    """

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    reason: str
    client_reason: str | None = None


class MemberFenced(Event, frozen=True, kw_only=True, tag="member_fenced"):
    """A static member was started again: the program at `client_host` goes on as `replaced_by`.

    Whoever still uses the old `member_id` is told FENCED_INSTANCE_ID.
    """

    member_id: str
    group_instance_id: str
    replaced_by: str
    client_id: str
    client_host: str
    client_reason: str | None


class GenerationCompleted(Event, frozen=True, kw_only=True, tag="generation_completed"):
    """A join phase ended with members: the new generation, who leads it and who is in it (member ids)."""

    protocol_type: str = ""
    protocol_name: str
    leader: str
    members: list[str]


class GenerationWrapped(Event, frozen=True, tag="generation_wrapped"):
    """The generation after the largest int32 is 1."""


class RebalancePostponed(Event, frozen=True, kw_only=True, tag="rebalance_postponed"):
    """No member has joined, and the ones that are left are static: they are waited for until `until_ms`."""

    until_ms: int


class MemberAssigned(msgspec.Struct, frozen=True):
    """What one member got, as the bytes the leader sent."""

    member_id: str
    assignment: bytes


class AssignmentPropagated(Event, frozen=True, kw_only=True, tag="assignment_propagated"):
    """The leader's assignment was taken over: who owns what in this generation."""

    protocol_type: str = ""
    assignments: list[MemberAssigned]


class CommittedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of an `OffsetsCommitted`."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str


class OffsetsOfTopic(msgspec.Struct, frozen=True):
    """The committed offsets of one topic."""

    name: str
    partitions: list[CommittedPartition]


class PartitionsOfTopic(msgspec.Struct, frozen=True):
    """The partitions of one topic whose offsets are gone."""

    name: str
    partition_indexes: list[int]


class OffsetsCommitted(Event, frozen=True, kw_only=True, tag="offsets_committed"):
    """Offsets were committed: by `member_id`, or if that is empty by no member, as tools do."""

    IS_PICTURED: ClassVar[bool] = False

    member_id: str
    client_id: str
    topics: list[OffsetsOfTopic]


class OffsetsDeleted(Event, frozen=True, kw_only=True, tag="offsets_deleted"):
    """Offsets were deleted, alone or with their group."""

    IS_PICTURED: ClassVar[bool] = False

    topics: list[PartitionsOfTopic]


class OffsetsExpired(Event, frozen=True, kw_only=True, tag="offsets_expired"):
    """Offsets were not used for `offsets.retention.minutes`."""

    IS_PICTURED: ClassVar[bool] = False

    topics: list[PartitionsOfTopic]


class GroupDeleted(Event, frozen=True, kw_only=True, tag="group_deleted"):
    """The group is gone; the same id starts afresh."""


# A reader has to know them all, also those that it does nothing with.
AnyEvent = (
    GroupCreated
    | StateChanged
    | MemberAdded
    | MemberRejoined
    | MemberRemoved
    | MemberFenced
    | GenerationCompleted
    | GenerationWrapped
    | RebalancePostponed
    | AssignmentPropagated
    | OffsetsCommitted
    | OffsetsDeleted
    | OffsetsExpired
    | GroupDeleted
)
