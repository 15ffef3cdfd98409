"""The questions that the page and the API take: the fields of each are the parameters of its address."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.page.answers import Side
from group_coordinator.page.web import Time

GroupId = Annotated[str, msgspec.Meta(description="The id of a group.")]
Offset = Annotated[
    int, msgspec.Meta(ge=0, le=1_000_000_000, description="How many to leave out at the beginning.")
]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1_000, description="How many to answer with, at most.")]
OfSide = Annotated[
    Side | None,
    msgspec.Meta(description="The side of groups that is meant; without it the one that is shown first."),
]
PartitionIndex = Annotated[int, msgspec.Meta(ge=0, le=2_147_483_647)]
Search = Annotated[
    str,
    msgspec.Meta(
        description="Only groups with this text in their id, or in a member's id, client, instance or host."
    ),
]


class NoQuery(msgspec.Struct, frozen=True):
    """Nothing can be asked."""


class SideQuery(msgspec.Struct, frozen=True):
    """One of the sides that are shown."""

    of: OfSide = None


class GroupsQuery(msgspec.Struct, frozen=True):
    """A choice of groups, and their order. Groups of which a value is not known come last in any order.

    The worst group was not Stable for longest in the last day. Then it has most rebalances, and then the
    oldest record left.
    """

    q: Search = ""
    state: Annotated[str, msgspec.Meta(description="Only groups in this state, such as Stable.")] = ""
    of: Annotated[Side | None, msgspec.Meta(description="Only groups of this side.")] = None
    cause: Annotated[
        RebalanceCause | None,
        msgspec.Meta(description="Only groups that had a rebalance for this cause in the last day."),
    ] = None
    member: Annotated[
        str,
        msgspec.Meta(
            description="Only groups that have this member, or had it in the last day: its member id, client "
            "id or instance id."
        ),
    ] = ""
    topic: Annotated[
        str,
        msgspec.Meta(
            description="Only groups that own a partition of this topic, or this unit of work. The history "
            "adds those that did in the last day."
        ),
    ] = ""
    sort: Annotated[
        Literal[
            "worst",
            "group_id",
            "of",
            "group_type",
            "state",
            "generation_id",
            "members",
            "rebalances",
            "last_cause",
            "records",
            "age_ms",
            "state_timestamp_ms",
        ],
        msgspec.Meta(description="The order; records and age_ms are those of the lag."),
    ] = "worst"
    order: Annotated[
        Literal["asc", "desc"] | None,
        msgspec.Meta(description="If it is not given, worst is desc, and all others are asc."),
    ] = None
    offset: Offset = 0
    limit: Limit = 100

    @property
    def direction(self) -> Literal["asc", "desc"]:
        """The order, also if it is not given."""
        return self.order or ("desc" if self.sort == "worst" else "asc")


class GroupQuery(msgspec.Struct, frozen=True):
    """One group."""

    group_id: GroupId
    of: OfSide = None


class TimelineQuery(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """A group over a time. Without one it is the last hour."""

    group_id: GroupId
    of: OfSide = None
    from_: Annotated[Time | None, msgspec.Meta(description="The begin.")] = None
    to: Annotated[Time | None, msgspec.Meta(description="The end, at most 400 days later.")] = None
    past: Annotated[
        bool,
        msgspec.Meta(description="Read it from the history, which reaches back further than what is live."),
    ] = False


class EventsQuery(msgspec.Struct, frozen=True):
    """Events of a group."""

    group_id: GroupId
    of: OfSide = None
    since: Annotated[Time | None, msgspec.Meta(description="The log time of the first.")] = None
    after: Annotated[
        str,
        msgspec.Meta(
            description="An `event_id`: begin after it. One that is no longer known counts as none."
        ),
    ] = ""
    limit: Limit = 100


class HistoryGroupsQuery(msgspec.Struct, frozen=True):
    """Groups of the history."""

    of: OfSide = None
    q: Annotated[str, msgspec.Meta(description="Only groups with this text in their id.")] = ""
    offset: Offset = 0
    limit: Limit = 100


class HistoryQuery(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """A question about the past of a group, as `group-coordinator history` has them."""

    group_id: GroupId
    of: OfSide = None
    question: Annotated[
        Literal[
            "rebalances",
            "causes",
            "states",
            "members",
            "assignments",
            "waits",
            "joins",
            "offsets",
            "events",
            "lag",
        ],
        msgspec.Meta(description="What to ask; `group-coordinator history --help` says what each is."),
    ] = "rebalances"
    from_: Annotated[
        Time | None, msgspec.Meta(description="The begin of the period: a day before its end, if not given.")
    ] = None
    to: Annotated[Time | None, msgspec.Meta(description="The end of the period: now, if not given.")] = None
    at: Annotated[Time | None, msgspec.Meta(description="A moment, instead of a period.")] = None
    member: Annotated[
        str | None, msgspec.Meta(description="Only this member: its member id, client id or instance id.")
    ] = None
    topic: Annotated[str | None, msgspec.Meta(description="Only this topic or unit of work.")] = None
    partition: Annotated[
        PartitionIndex | None, msgspec.Meta(description="Only this partition of the topic.")
    ] = None
    limit: Limit = 100
