"""Rows that tell of one event each: they are the event itself, in columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer.states import GroupState as ConsumerState
from group_coordinator.coordinator_state.events import (
    AnyEvent,
    GenerationCompleted,
    MemberAdded,
    MemberRejoined,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    SessionNearlyExpired,
    StateChanged,
)
from group_coordinator.coordinator_state.foreign import MOST_MS, ForeignJson

if TYPE_CHECKING:
    from collections.abc import Iterator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AT_REST = (GroupState.STABLE, GroupState.EMPTY)
IN_PHASES = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
"""States of a classic group in a rebalance."""
ON_THE_WAY = (ConsumerState.ASSIGNING, ConsumerState.RECONCILING)
"""States of a group of the consumer protocol in a rebalance, which it has by turns."""
REBALANCING = (*IN_PHASES, *ON_THE_WAY)


def time_of(at_ms: int) -> datetime:
    """Log time as a time in UTC. One that no calendar has is its nearest end."""
    return _EPOCH + timedelta(milliseconds=max(0, min(at_ms, MOST_MS)))


def ms_of(at: datetime) -> int:
    """A time as log time."""
    return round(at.timestamp() * 1_000)


def read_event(body: bytes | str) -> AnyEvent | None:
    """An event, or None: this version does not know its kind, or somebody else wrote it.

    Such an event is a row of the table of events, and of no other.
    """
    event = _events.read_or_none(body)
    # The fields of all events have defaults for code that makes events, not for code that reads them.
    return event if event is not None and event.event_id else None


_events = ForeignJson[AnyEvent](AnyEvent)


class Row(msgspec.Struct, kw_only=True):
    """The fields of all rows."""

    group_id: str


class OfEvent(Row, kw_only=True):
    """The fields of rows that tell of one event.

    `at`: log time. `log_offset`: where the event stands in its partition of the topic, which is the order of
    what happened to a group in one millisecond.
    """

    event_id: str
    at: datetime
    log_offset: int
    generation_id: int

    @property
    def place(self) -> tuple[datetime, int]:
        """Its place among what happened to the group."""
        return self.at, self.log_offset


class OfRequest(OfEvent, kw_only=True):
    """The fields of rows that tell of what somebody asked for.

    `principal`: the sender's user name at the brokers. None: a deadline was the cause, or the request did not
    name it (`docs/contract.md` says when it can be trusted).
    """

    principal: str | None = None


class Transition(OfRequest, kw_only=True):
    """The group moved from one state to another. See `StateChanged` for `cause` and `rebalance_ms`."""

    from_state: str
    to_state: str
    reason: str
    cause: str | None
    rebalance_ms: int | None


class Join(OfRequest, kw_only=True):
    """A member joined, and waited from then on. `generation_id` is the one before what came of it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    is_first: bool
    join_phase_ms: int | None
    client_reason: str | None


class GenerationMember(OfEvent, kw_only=True):
    """A member of a generation."""

    member_id: str
    is_leader: bool
    protocol_type: str
    protocol_name: str


class OffsetChange(OfRequest, kw_only=True):
    """An offset was committed, deleted, expired, or went for a reason that is not known (`change`).

    `member_id`: "" if no member did it. `client_reason`: why, in the words of the client that wanted it.
    `topic_id`: None if the commit did not give it.
    """

    topic: str
    partition: int
    change: str
    committed_offset: int | None = None
    committed_leader_epoch: int | None = None
    metadata: str | None = None
    member_id: str | None = None
    client_id: str | None = None
    client_reason: str | None = None
    topic_id: str | None = None

    @property
    def is_by_hand(self) -> bool:
        """Whether somebody did it who is no member, as a tool that resets offsets."""
        return self.change == "deleted" or (self.change == "committed" and self.member_id == "")


class SignOfLife(OfEvent, kw_only=True):
    """A member showed a sign of life.

    `what`: it `joined`, it `committed`, or its session had `nearly_expired`. Then `remaining_ms` was left of
    `session_timeout_ms`. Heartbeats in time are no events. It is no row of a table.
    """

    member_id: str
    what: str
    session_timeout_ms: int | None = None
    remaining_ms: int | None = None

    @property
    def is_late(self) -> bool:
        """Whether the session had nearly expired."""
        return self.what == "nearly_expired"


def _common(event: AnyEvent, log_offset: int) -> dict[str, Any]:
    return {
        "event_id": event.event_id,
        "at": time_of(event.at_ms),
        "log_offset": log_offset,
        "group_id": event.group_id,
        "generation_id": event.generation_id,
    }


def sign_of_life(event: AnyEvent, log_offset: int) -> SignOfLife | None:
    """The sign of life that `event` is, which stands at that offset of the topic; None if it is none."""
    common = _common(event, log_offset)
    match event:
        case SessionNearlyExpired():
            return SignOfLife(
                **common,
                member_id=event.member_id,
                what="nearly_expired",
                session_timeout_ms=event.session_timeout_ms,
                remaining_ms=event.remaining_ms,
            )
        case MemberAdded() | MemberRejoined():
            return SignOfLife(**common, member_id=event.member_id, what="joined")
        case OffsetsCommitted(member_id=str(member_id)) if member_id:
            return SignOfLife(**common, member_id=member_id, what="committed")
        case _:
            return None


def rows_of(event: AnyEvent, log_offset: int) -> Iterator[OfEvent]:
    """The rows that tell of `event` alone, which stands at that offset of the topic."""
    common = _common(event, log_offset)
    match event:
        case StateChanged():
            yield Transition(
                **common,
                principal=event.principal or None,
                from_state=event.from_,
                to_state=event.to,
                reason=event.reason,
                cause=event.cause,
                rebalance_ms=event.rebalance_ms,
            )
        case MemberAdded() | MemberRejoined():
            yield Join(
                **common,
                principal=event.principal or None,
                member_id=event.member_id,
                group_instance_id=event.group_instance_id,
                client_id=event.client_id,
                is_first=isinstance(event, MemberAdded),
                join_phase_ms=event.join_phase_ms,
                client_reason=event.client_reason,
            )
        case GenerationCompleted():
            for member_id in event.members:
                yield GenerationMember(
                    **common,
                    member_id=member_id,
                    is_leader=member_id == event.leader,
                    protocol_type=event.protocol_type,
                    protocol_name=event.protocol_name,
                )
        case OffsetsCommitted() | OffsetsDeleted() | OffsetsExpired():
            yield from _offset_changes(event, common | {"principal": event.principal or None})
        case _:
            pass


def _offset_changes(
    event: OffsetsCommitted | OffsetsDeleted | OffsetsExpired, common: dict[str, Any]
) -> Iterator[OffsetChange]:
    if not isinstance(event, OffsetsCommitted):
        change = "expired"
        if isinstance(event, OffsetsDeleted):
            change = "deleted" if event.cause is UNSET else "gone"
            common |= {"client_reason": event.client_reason or None}
        for gone in event.topics:
            for partition in gone.partition_indexes:
                yield OffsetChange(**common, topic=gone.name, partition=partition, change=change)
        return
    for topic in event.topics:
        for each in topic.partitions:
            yield OffsetChange(
                **common,
                topic=topic.name,
                partition=each.partition_index,
                change="committed",
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                metadata=each.metadata,
                member_id=event.member_id,
                client_id=event.client_id,
                client_reason=event.client_reason or None,
                topic_id=topic.topic_id or None,
            )
