"""The answers of the API and of the page: what is known of groups, as types.

Times whose names end in `_ms` are ms since 1970, or lengths in ms. Others are written as ISO 8601, in UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from group_coordinator.client.lag_log import Measurement
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.history.story import LagPoint, Story

Side = Annotated[
    Literal["coordinator", "brokers"],
    msgspec.Meta(description="Groups of the coordinator, or groups at the brokers: both may have an id."),
]


class Problem(msgspec.Struct, frozen=True):
    """A request that failed (RFC 9457). `detail` says what to do."""

    title: str
    status: int
    detail: str


class Totals(msgspec.Struct, frozen=True):
    """All groups together. `states`: the number of groups in each state. `records`: those left to read.

    `records` counts the groups whose lag is known; it is null if it is known of none. `measured`: the number
    of groups of which `measure-lag` tells. `sides`: the number of groups on each side that is shown. `types`:
    that of each type, `classic` and `consumer`.
    """

    groups: int
    members: int
    states: dict[str, int]
    records: int | None
    measured: int
    sides: dict[Side, int]
    types: dict[str, int] = {}


class Status(msgspec.Struct, frozen=True):
    """The state of the page and of the coordinator.

    `problem`: why what is known may not be all; null if nothing is wrong. `as_of_ms`: the time up to which
    it is known. `coordinator_silent_ms`: how long no sign of a coordinator has come; null if there was none,
    and for groups at the brokers alone.
    """

    version: str
    bootstrap_servers: str
    problem: str | None
    as_of_ms: int
    coordinator_silent_ms: int | None
    has_history: bool
    has_forgotten: bool
    totals: Totals


class Lag(msgspec.Struct, frozen=True):
    """The lag of a group: the number of records that are left, at a time.

    The other fields are told by `measure-lag` only, and are else null. `age_ms`: how old the oldest record is
    that the group has not committed past; `at_least`: it may be older. `trend`: growing, steady or clearing.
    `lost_records`: retention has deleted so many before the group had committed past them; it will have
    deleted some in `lost_in_ms` if it goes on so.
    """

    records: int
    at_ms: int
    age_ms: int | None = None
    error_ms: int | None = None
    at_least: bool = False
    trend: str | None = None
    clear_in_ms: int | None = None
    lost_records: int = 0
    lost_in_ms: int | None = None


class GroupLine(msgspec.Struct, frozen=True):
    """A group in a list. `members`: how many there are. `lag`: null if it is not known.

    `group_type`: the protocol that its members speak, `classic` or `consumer`. `generation_id` is the epoch
    of a group of the consumer protocol.

    `rebalances`, `last_cause` and `not_stable_ms` are those since `counted.since_ms` of the list. The time in
    which a group was Empty does not count. `not_stable_ms`, and its share of that time in percent, are null
    if they are not known, as of groups at the brokers.
    """

    group_id: str
    of: Side
    state: str
    state_timestamp_ms: int
    generation_id: int
    members: int
    rebalances: int
    last_cause: str | None
    not_stable_ms: int | None
    not_stable_percent: float | None
    lag: Lag | None
    group_type: str = "classic"


class Counted(msgspec.Struct, frozen=True):
    """The time since which rebalances count, a day at most. `problem`: why the history does not tell more."""

    since_ms: int
    problem: str | None


class Asked(msgspec.Struct, frozen=True):
    """The time at which the coordinator and the brokers have answered; or why they have not."""

    at_ms: int
    problem: str | None


class Groups(msgspec.Struct, frozen=True):
    """Some of the groups that were asked for. `matching`: the number of all of them.

    `next_offset`: the offset to ask for next; null at the end. `lag_asked`: the lag of groups that are not
    measured was asked for. It is null if the answers are on their way, or if all groups are measured.
    """

    status: Status
    matching: int
    groups: list[GroupLine]
    next_offset: int | None
    lag_asked: Asked | None
    counted: Counted


class Group(msgspec.Struct, frozen=True):
    """A group and its members. `owned`: what each member owns, by member id; null if that cannot be read.

    A unit of work is partition 0 of its name. `targets`: what each member of the consumer protocol is to own.
    """

    of: Side
    group: GroupPicture
    owned: dict[str, list[tuple[str, int]] | None]
    lag: Lag | None
    targets: dict[str, list[tuple[str, int]] | None] = {}


class Partition(msgspec.Struct, frozen=True):
    """The progress in one partition, which a member owns or of which something is committed.

    `committed_offset`: null if nothing is. `log_end_offset`: null if there is no log, as of units of work.
    """

    topic: str
    partition: int
    committed_offset: int | None
    log_end_offset: int | None
    lag: int | None
    member_id: str | None
    client_id: str | None
    client_host: str | None


class PartitionsAsked(Asked, frozen=True):
    """The answers of the coordinator and the brokers; or why there are none."""

    partitions: list[Partition]


class GroupLag(msgspec.Struct, frozen=True):
    """The lag of a group. `asked`: the coordinator and the brokers were asked for this answer.

    `measured`: the newest measurement of `measure-lag`, if there is one. `points`: all of the last hours.
    """

    group_id: str
    of: Side
    asked: PartitionsAsked
    measured: Measurement | None
    points: list[LagPoint]


class Timeline(msgspec.Struct, frozen=True):
    """The story of a group from `since` to `until`, with all that lasted when that began."""

    since: datetime
    until: datetime
    story: Story


class Events(msgspec.Struct, frozen=True):
    """Events of a group, the oldest first, each as the contract has it.

    `next_after`: what to ask for as `after` to get those that follow; null if nothing is known to follow.
    """

    group_id: str
    of: Side
    events: list[Any]
    next_after: str | None


class HistoryGroups(msgspec.Struct, frozen=True):
    """The ids of groups that the history knows. `reaches_to`: the time up to which it knows them."""

    of: Side
    reaches_to: datetime | None
    matching: int
    group_ids: list[str]
    next_offset: int | None


class HistoryAnswer(msgspec.Struct, frozen=True):
    """The answer to a question: rows, of which each has every column.

    `is_complete`: whether these are all rows. `reaches_to`: the time up to which the history knows anything.
    """

    columns: list[str]
    rows: list[dict[str, Any]]
    is_complete: bool
    reaches_to: datetime | None
