"""Rows that one event begins and another one ends: who was a member, who owned what, and who waited for it.

An assignment lasts until the group's next one, or until its owner is out. While a group rebalances nobody has
been given anything else yet, so the owners before still count: `transitions` says that it did.

In a group of the consumer protocol each member tells what it has given up. It owns that until then, and the
member that is to have it waits.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import UNSET

from group_coordinator.client.work import assigned_partitions
from group_coordinator.coordinator_state.consumer_protocol import CONSUMER
from group_coordinator.coordinator_state.events import (
    AnyEvent,
    AssignmentPropagated,
    GenerationCompleted,
    GroupDeleted,
    MemberAdded,
    MemberAway,
    MemberFenced,
    MemberReconciled,
    MemberRemoved,
    TargetAssigned,
)
from group_coordinator.history.rows import Row, time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


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
    `generation_id`: of a group of the consumer protocol the epoch. `revoking_since`: since when the member
    has been told to give it up, and still had it.
    """

    generation_id: int
    member_id: str
    topic: str | None = None
    partition: int | None = None
    revoking_since: datetime | None = None


class Wait(Span, kw_only=True):
    """The member `holder_id` still had a partition that `member_id` was to have (consumer protocol).

    `assignment_epoch`: the epoch whose division of the work says so.
    """

    topic: str
    partition: int
    holder_id: str
    member_id: str
    assignment_epoch: int


class Spans:
    """The spans of one group. It is given those that had not ended, and then the events that followed."""

    def __init__(
        self,
        memberships: Iterable[Membership] = (),
        assignments: Iterable[Assignment] = (),
        waits: Iterable[Wait] = (),
    ) -> None:
        self._members = {each.member_id: each for each in memberships}
        self._owned: dict[str, list[Assignment]] = {}
        for each in assignments:
            self._owned.setdefault(each.member_id, []).append(each)
        self._waits = {(each.topic, each.partition): each for each in waits}
        """By what is waited for: one member has it, and one is to have it."""
        self.changed: list[Membership | Assignment | Wait] = []
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
            case MemberFenced() if event.replaced_by == event.member_id:
                # It is back from where it left for, under the id that it had.
                pass
            case MemberFenced():
                member, owned = self._pop(event), self._owned.get(event.member_id, ())
                member.reason = "replaced"
                self._end(member, event)
                self._begin(_member_of(event))
                for each in owned:
                    self._give(event, event.replaced_by, each.generation_id, each.topic, each.partition)
                self._rename_in_waits(event)
            case GenerationCompleted():
                self._have_members(event, event.members)
            case AssignmentPropagated():
                self._assign(event)
            case GroupDeleted():
                self._have_members(event, [])
            case _:
                self._take_of_consumers(event)

    def _take_of_consumers(self, event: AnyEvent) -> None:
        match event:
            case TargetAssigned():
                self._wait(event)
            case MemberReconciled():
                self._hold(event)
            case MemberAway():
                self._release(event)
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
        if not isinstance(event, MemberFenced):
            self._end_waits_if(event, lambda it: member.member_id in (it.member_id, it.holder_id))

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
    ) -> Assignment:
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
        return given

    def _take_back(self, event: AnyEvent, member_id: str) -> None:
        for each in self._owned.pop(member_id, ()):
            self._close(each, event)

    def _close(self, span: Assignment | Wait, event: AnyEvent) -> None:
        span.until, span.ended_by = time_of(event.at_ms), event.event_id
        self.changed.append(span)

    # -- the consumer protocol ---------------------------------------------------------------------------

    def _hold(self, event: MemberReconciled) -> None:
        """A member has this from now on, and is to give up some of it."""
        member_id = event.member_id
        held, revoking = (set(_named(each)) for each in (event.assignment, event.revoking))
        # A member that is to give something up gets nothing in that moment.
        is_older = member_id not in self._members and bool(revoking)
        if member_id not in self._members:
            self._begin(Membership(group_id=event.group_id, begun_by=event.event_id, member_id=member_id))
        owned = self._owned.pop(member_id, [])
        for each in owned:
            what = each.topic, each.partition
            if what not in held:
                self._close(each, event)
                continue
            held.discard(what)
            self._owned.setdefault(member_id, []).append(each)
            since = (each.revoking_since or time_of(event.at_ms)) if what in revoking else None
            if since != each.revoking_since:
                each.revoking_since = since
                self.changed.append(each)
        for topic, partition in sorted(held):
            given = self._give(event, member_id, event.generation_id, topic, partition)
            if is_older:
                given.since = None
                given.revoking_since = time_of(event.at_ms) if (topic, partition) in revoking else None
        lost = ((each.topic, each.partition) for each in owned if each.until is not None)
        self._end_waits(event, (*lost, *held))

    def _release(self, event: MemberAway) -> None:
        """A static member leaves for a while, and what it was to give up is nobody's."""
        now, kept = time_of(event.at_ms), list[Assignment]()
        for each in self._owned.pop(event.member_id, []):
            # If a batch is written again, it has been told already what comes behind this event.
            if each.revoking_since is not None and each.revoking_since <= now:
                self._close(each, event)
                self._end_waits(event, [(each.topic, each.partition)])
            else:
                kept.append(each)
        if kept:
            self._owned[event.member_id] = kept

    def _wait(self, event: TargetAssigned) -> None:
        """Members are to have this, and some of it others still have."""
        targets = {each.member_id: set(_named(each.assignment)) for each in event.assignments}
        self._end_waits_if(
            event,
            lambda it: it.member_id in targets and (it.topic, it.partition) not in targets[it.member_id],
        )
        holders: dict[tuple[str, int], str] = {
            (each.topic, each.partition or 0): each.member_id
            for owned in self._owned.values()
            for each in owned
            if each.topic is not None
        }
        for member_id, target in targets.items():
            for what in sorted(target & holders.keys()):
                if holders[what] != member_id and what not in self._waits:
                    self._begin_wait(event, what, (holders[what], member_id), event.assignment_epoch)

    def _begin_wait(
        self, event: AnyEvent, what: tuple[str, int], who: tuple[str, str], assignment_epoch: int
    ) -> None:
        (topic, partition), (holder_id, member_id) = what, who
        wait = Wait(
            group_id=event.group_id,
            since=time_of(event.at_ms),
            begun_by=event.event_id,
            topic=topic,
            partition=partition,
            holder_id=holder_id,
            member_id=member_id,
            assignment_epoch=assignment_epoch,
        )
        self._waits[what] = wait
        self.changed.append(wait)

    def _end_waits(self, event: AnyEvent, partitions: Iterable[tuple[str | None, int | None]]) -> None:
        """Nobody waits for these any more: they are nobody's, or those have them who waited."""
        for topic, partition in partitions:
            if topic is not None and (ended := self._waits.pop((topic, partition or 0), None)) is not None:
                self._close(ended, event)

    def _end_waits_if(self, event: AnyEvent, ends: Callable[[Wait], bool]) -> list[Wait]:
        """End those waits of which it is so; return them."""
        ended = [each for each in self._waits.values() if ends(each)]
        self._end_waits(event, [(each.topic, each.partition) for each in ended])
        return ended

    def _rename_in_waits(self, event: MemberFenced) -> None:
        """A static member goes on under another id, and so do the waits that are about it."""
        before, after = event.member_id, event.replaced_by
        for each in self._end_waits_if(event, lambda it: before in (it.member_id, it.holder_id)):
            holder_id, member_id = (after if it == before else it for it in (each.holder_id, each.member_id))
            self._begin_wait(
                event, (each.topic, each.partition), (holder_id, member_id), each.assignment_epoch
            )


def _named(assignment: bytes) -> list[tuple[str, int]]:
    """The partitions in an assignment of the consumer protocol; none if somebody wrote nonsense."""
    return list(assigned_partitions(CONSUMER, assignment) or ())


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
