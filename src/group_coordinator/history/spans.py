"""Rows that one event begins and another one ends: who was a member, and who owned what.

An assignment lasts until the group's next one, or until its owner is out. While a group rebalances nobody has
been given anything else yet, so the owners before still count: `transitions` says that it did.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import UNSET

from group_coordinator.client.work import assigned_partitions
from group_coordinator.coordinator_state.events import (
    AnyEvent,
    AssignmentPropagated,
    GenerationCompleted,
    GroupDeleted,
    MemberAdded,
    MemberFenced,
    MemberRemoved,
)
from group_coordinator.history.rows import Row, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Assignment", "Membership", "Span", "Spans"]


class Span(Row, kw_only=True):
    """Something that lasts from `since` to `until`, which is None until it ends.

    `since` is None for what began before the history did. `begun_by`, `ended_by`: ids of the events.
    """

    since: datetime | None = None
    until: datetime | None = None
    begun_by: str
    ended_by: str | None = None


class Membership(Span, kw_only=True):
    """A member was in the group.

    `reason`: why it went, as in `MemberRemoved`. It is `replaced` if the static member restarted, and goes on
    as another row. It is `unknown` if it was not recorded. `session_timeout_ms` and `last_commit_ms` are what
    is known of one that went for an unknown reason, as in `MemberRemoved`.
    """

    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    reason: str | None = None
    client_reason: str | None = None
    session_timeout_ms: int | None = None
    last_commit_ms: int | None = None


class Assignment(Span, kw_only=True):
    """A member owned a partition, or a unit of work (partition 0 of its name).

    `topic` and `partition` are None if the assignment cannot be read, as with protocols of somebody's own.
    """

    generation_id: int
    member_id: str
    topic: str | None = None
    partition: int | None = None


class Spans:
    """The spans of one group. It is given those that had not ended, and then the events that followed."""

    def __init__(
        self, memberships: Iterable[Membership] = (), assignments: Iterable[Assignment] = ()
    ) -> None:
        self._members = {each.member_id: each for each in memberships}
        self._owned: dict[str, list[Assignment]] = {}
        for each in assignments:
            self._owned.setdefault(each.member_id, []).append(each)
        self.changed: list[Membership | Assignment] = []
        """Those that have begun or ended since, in order; some of them twice."""

    def take(self, event: AnyEvent) -> None:
        """`event` has happened to the group, after all others."""
        match event:
            case MemberAdded():
                self._begin(_member_of(event))
            case MemberRemoved():
                member = self._pop(event)
                # Of one that was there before the history began, the name is told only now.
                member.client_id, member.group_instance_id = event.client_id, event.group_instance_id
                member.reason, member.client_reason = event.reason, event.client_reason
                member.session_timeout_ms = event.session_timeout_ms or None
                member.last_commit_ms = None if event.last_commit_ms is UNSET else event.last_commit_ms
                self._end(member, event)
            case MemberFenced():
                member, owned = self._pop(event), self._owned.get(event.member_id, ())
                member.reason = "replaced"
                self._end(member, event)
                self._begin(_member_of(event))
                for each in owned:
                    self._give(event, event.replaced_by, each.generation_id, each.topic, each.partition)
            case GenerationCompleted():
                self._have_members(event, event.members)
            case AssignmentPropagated():
                self._assign(event)
            case GroupDeleted():
                self._have_members(event, [])
            case _:
                pass

    def _pop(self, event: MemberRemoved | MemberFenced) -> Membership:
        found = Membership(group_id=event.group_id, begun_by=event.event_id, member_id=event.member_id)
        return self._members.pop(event.member_id, found)

    def _begin(self, member: Membership) -> None:
        self._members[member.member_id] = member
        self.changed.append(member)

    def _end(self, member: Membership, event: AnyEvent) -> None:
        member.until, member.ended_by = time_of(event.at_ms), event.event_id
        self.changed.append(member)
        self._take_back(event, member.member_id)

    def _have_members(self, event: AnyEvent, members: list[str]) -> None:
        """These are all members there are. Others came or went when nobody took notes."""
        for member_id in self._members.keys() - set(members):
            member = self._members.pop(member_id)
            member.reason = "unknown"
            self._end(member, event)
        for member_id in members:
            if member_id not in self._members:
                self._begin(Membership(group_id=event.group_id, begun_by=event.event_id, member_id=member_id))

    def _assign(self, event: AssignmentPropagated) -> None:
        for member_id in list(self._owned):
            self._take_back(event, member_id)
        for given in event.assignments:
            partitions = assigned_partitions(event.protocol_type, given.assignment)
            # A leader may name a partition twice.
            for topic, partition in [(None, None)] if partitions is None else dict.fromkeys(partitions):
                self._give(event, given.member_id, event.generation_id, topic, partition)

    def _give(
        self, event: AnyEvent, member_id: str, generation_id: int, topic: str | None, partition: int | None
    ) -> None:
        given = Assignment(
            group_id=event.group_id,
            since=time_of(event.at_ms),
            begun_by=event.event_id,
            generation_id=generation_id,
            member_id=member_id,
            topic=topic,
            partition=partition,
        )
        self._owned.setdefault(member_id, []).append(given)
        self.changed.append(given)

    def _take_back(self, event: AnyEvent, member_id: str) -> None:
        for each in self._owned.pop(member_id, ()):
            each.until, each.ended_by = time_of(event.at_ms), event.event_id
            self.changed.append(each)


def _member_of(event: MemberAdded | MemberFenced) -> Membership:
    return Membership(
        group_id=event.group_id,
        since=time_of(event.at_ms),
        begun_by=event.event_id,
        member_id=event.member_id if isinstance(event, MemberAdded) else event.replaced_by,
        group_instance_id=event.group_instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
    )
